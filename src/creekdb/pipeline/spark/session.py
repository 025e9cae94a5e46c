"""A Spark session for people: quiet, sized for the machine, and with one clear line if it fails.

What the Java process says goes into a file from the moment it is started: there is nothing in it
for a user, unless Spark cannot start, and then the line that tells why is quoted, or ends while it
is needed, and then the file is kept. Errors of Spark itself still arrive here, as exceptions.
"""

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import creekdb
from creekdb.errors import CreekError, HelperEnded, UsageError
from creekdb.pipeline.spark.java import java_home

if TYPE_CHECKING:
    from signal import _HANDLER

    from pyspark.sql import SparkSession as SparkSession

LOCAL_MASTER: Final = "local[*]"
TASK_ATTEMPTS_MAX: Final = 3
"""How often a task that lost its process is tried, on this machine."""
HEAP_DIVISOR: Final = 4
"""The heap is one part in so many of the machine's memory; the rest is for Python's processes."""
HEAP_MIB_MIN: Final = 1024
HEAP_MIB_MAX: Final = 4096
CONNECT_TIMEOUT_S: Final = 5.0
EXIT_TIMEOUT_S: Final = 5.0
"""Of a Java process with which the connection broke, if that is because it ended."""
INSTALL_HINT: Final = "install them with: pip install 'creekdb[pipeline]'"

_LOG4J_CONFIG: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %m%n%throwable
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""
_LOOPBACK_SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_EXCEPTION_LINE = re.compile(
    r"^(?:Exception in thread \"\S+\" |Caused by: |: )?[\w.$]+(?:Exception|Error): (.+)"
)


@contextmanager
def spark_session(
    master: str = LOCAL_MASTER, name: str = "creek", heap_mib: int | None = None
) -> Iterator["SparkSession"]:
    """A session on `master`, which is stopped in the end. A process has one at a time: if there is
    one already, it is that, and whoever began it stops it. The heap of the driver is sized for the
    machine, unless it is said how large it is."""
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - it is optional
    except ImportError as error:
        raise UsageError(
            f"the pipeline needs packages that are missing ({error}): {INSTALL_HINT}"
        ) from None
    if (running := SparkSession.getActiveSession()) is not None:
        yield running
        return
    _check_reachable(master)
    with tempfile.TemporaryDirectory(prefix="creek-spark-") as folder:
        scratch = Path(folder)
        chatter = scratch / "chatter"
        os.environ["JAVA_HOME"] = str(java_home(scratch))
        if is_local(master) or "PYSPARK_PYTHON" not in os.environ:
            os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master(_with_task_retries(master)).appName(name)
        for key, value in _settings(master, scratch, heap_mib or _heap_mib()).items():
            builder = builder.config(key, value)
        before = signal.getsignal(signal.SIGINT)
        try:
            with _redirect_stderr(chatter):
                spark = builder.getOrCreate()
        except Exception as error:  # noqa: BLE001 - whatever it is, a user gets one line
            raise UsageError(
                f"Spark cannot start on {master}: {_startup_failure(error, chatter)}"
            ) from None
        with _stop_on_exit(spark, chatter), _restore_interrupts(before):
            if not is_local(master):
                spark.sparkContext.addPyFile(str(_package_archive(scratch)))
            yield spark


@contextmanager
def _stop_on_exit(spark: "SparkSession", chatter: Path) -> Iterator[None]:
    """Unless it has ended before, of which is told. It is stopped on another thread's connection:
    that of this one an interruption may have broken."""
    code: int | None = None
    try:
        with _log_connection_errors(chatter, spark):
            yield
    except CreekError:
        raise
    except Exception as error:
        code = _java_exit_code(spark, error)
        if code is not None:
            raise HelperEnded(_exit_report(code, chatter)) from error
        raise
    finally:
        if code is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # It ends with this process in any case.
                stopping = threading.Thread(target=spark.stop)
                stopping.start()
                stopping.join()


@contextmanager
def _restore_interrupts(before: "_HANDLER") -> Iterator[None]:
    """An interruption ends as one, and then signals are handled as they were `before` Spark. Its
    own handler calls Java in the middle of another call; and Py4J, interrupted at the wrong moment,
    raises an error of its own instead."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupted = False

    def interrupt(*_: object) -> NoReturn:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except Exception:
        if not interrupted:
            raise
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
    if interrupted:
        raise KeyboardInterrupt


def _check_reachable(master: str) -> None:
    """Spark itself tries for more than a minute before it gives up."""
    match = re.fullmatch(r"spark://(.*)", master)
    if match is None:
        return
    problem = "it is not an address"
    for address in match[1].split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S).close()
        except (OSError, ValueError, OverflowError) as error:
            problem = str(error)
        else:
            return
    raise UsageError(f"no Spark master answers at {master}: {problem}")


def is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def _is_on_this_host(master: str) -> bool:
    return is_local(master) or "//127.0.0.1" in master or "//localhost" in master


def _with_task_retries(master: str) -> str:
    """On this machine, too, a task is tried again when its process was lost."""
    match = re.fullmatch(r"local\[([^,\]]+)\]", master)
    return f"local[{match[1]},{TASK_ATTEMPTS_MAX}]" if match else master


def _settings(master: str, scratch: Path, heap_mib: int) -> dict[str, str]:
    logging = scratch / "log4j2.properties"
    logging.write_text(_LOG4J_CONFIG)
    return {
        **(_LOOPBACK_SETTINGS if _is_on_this_host(master) else {}),
        "spark.driver.memory": f"{heap_mib}m",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{logging}",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(scratch),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(_local_settings() if is_local(master) else {}),
    }


def _local_settings() -> dict[str, str]:
    """On this machine, tasks find modules where this process does, also those of the user."""
    here = os.getcwd()
    paths = {"spark.executorEnv.PYTHONPATH": here} if {"", here} & {*sys.path} else {}
    return {**paths, "spark.sql.shuffle.partitions": str(2 * _core_count())}


def _core_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _heap_mib() -> int:
    return min(max(_memory_mib() // HEAP_DIVISOR, HEAP_MIB_MIN), HEAP_MIB_MAX)


def _memory_mib() -> int:
    """What this process may use: the machine's, or less where it is confined."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        allowed = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        allowed = "max"
    return min(total, int(allowed) if allowed.isdecimal() else total) // 2**20


@contextmanager
def _redirect_stderr(file: Path) -> Iterator[None]:
    """What this process, and what it starts, writes to its standard error goes to `file`."""
    sys.stderr.flush()
    kept = os.dup(2)
    with file.open("wb") as stream:
        os.dup2(stream.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def _log_connection_errors(file: Path, spark: "SparkSession") -> Iterator[None]:
    """What Spark's side of this process says of a connection that broke goes to `file`, too."""
    handler = logging.FileHandler(file)
    logging.getLogger().addHandler(handler)
    server: Any = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: logging.exception("a connection broke")
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


def task_counts(spark: "SparkSession") -> tuple[int, int]:
    """How many tasks of what is going on are done, and how many there are in all; none, if Spark
    has ended, of which somebody else will tell."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - it is optional

    tracker = spark.sparkContext.statusTracker()
    try:
        found = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
    except (OSError, Py4JError):
        return 0, 0
    stages = [stage for stage in found if stage is not None]
    done = sum(stage.numCompletedTasks for stage in stages)
    return done, sum(stage.numTasks for stage in stages)


def _java_exit_code(spark: "SparkSession", error: Exception) -> int | None:
    """The code with which the Java process ended, if it has."""
    from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415 - it is optional

    process: subprocess.Popen[bytes] | None = getattr(spark.sparkContext._gateway, "proc", None)
    if process is None:
        return None
    told_by_java = isinstance(error, Py4JJavaError)
    if isinstance(error, ConnectionError | EOFError | Py4JError) and not told_by_java:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(EXIT_TIMEOUT_S)
    return process.poll()


def _exit_report(code: int, chatter: Path) -> str:
    """What became of Spark, where its log is kept, and what to do."""
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    file, name = tempfile.mkstemp(prefix="creek-spark-", suffix=".log")
    with os.fdopen(file, "wb") as kept:
        kept.write(chatter.read_bytes())
    return (
        f"Spark {how} in the middle: often there was too little memory for it. Its log is {name}. "
        "What is done stays, and the same command does the rest"
    )


def _startup_failure(error: Exception, chatter: Path) -> str:
    """The line that says most: the first that Java named an exception in, or the error's own."""
    said = chatter.read_text(errors="replace").splitlines() if chatter.exists() else []
    for line in (*said, *str(error).splitlines()):
        if match := _EXCEPTION_LINE.match(line.strip()):
            return match[1]
    told = [line for line in (*str(error).splitlines(), *said) if line.strip()]
    return told[0].strip() if told else type(error).__name__


def _package_archive(scratch: Path) -> Path:
    """This package, to be sent where it may not be installed: without what is compiled here, which
    can be imported neither from an archive nor on any machine."""
    package = Path(creekdb.__file__).parent
    archive = scratch / "creek.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(package.rglob("*")):
            compiled = "__pycache__" in path.parts or path.suffix in (".so", ".pyd")
            if path.is_file() and not compiled:
                file.write(path, Path("creekdb") / path.relative_to(package))
    return archive
