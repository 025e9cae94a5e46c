"""Spark session with quiet output, settings for this machine, and errors of one line.

The standard error of the Java process goes to a log file from its start. If Spark cannot start, the
error quotes the relevant line of the log. If the process exits early, the log file is kept. Errors
of Spark itself still arrive as exceptions.
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
"""Attempts of a task whose process was lost, on a local master."""
HEAP_DIVISOR: Final = 4
"""Divisor of the machine's memory for the Java heap. Python processes use the rest."""
HEAP_MIB_MIN: Final = 1024
HEAP_MIB_MAX: Final = 4096
CONNECT_TIMEOUT_S: Final = 5.0
EXIT_TIMEOUT_S: Final = 5.0
"""Time for the Java process to exit after its connection broke, in seconds."""
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
    """Yield a session on `master`, and stop it at the end.

    A process has one session at a time. An active session is reused, and stays open. The default
    heap of the driver depends on the machine's memory.
    """
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise UsageError(
            f"cannot run the pipeline: packages are missing ({error}); {INSTALL_HINT}"
        ) from None
    if (active := SparkSession.getActiveSession()) is not None:
        yield active
        return
    _check_reachable(master)
    with tempfile.TemporaryDirectory(prefix="creek-spark-") as directory:
        scratch = Path(directory)
        log_file = scratch / "java.log"
        os.environ["JAVA_HOME"] = str(java_home(scratch))
        if is_local(master) or "PYSPARK_PYTHON" not in os.environ:
            os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master(_with_task_retries(master)).appName(name)
        for key, value in _settings(master, scratch, heap_mib or _heap_mib()).items():
            builder = builder.config(key, value)
        handler = signal.getsignal(signal.SIGINT)
        try:
            with _redirect_stderr(log_file):
                spark = builder.getOrCreate()
        except Exception as error:  # noqa: BLE001 - any failure becomes one line
            raise UsageError(
                f"Spark cannot start on {master}: {_startup_failure(error, log_file)}"
            ) from None
        with _stop_on_exit(spark, log_file), _restore_interrupts(handler):
            if not is_local(master):
                spark.sparkContext.addPyFile(str(_package_archive(scratch)))
            yield spark


@contextmanager
def _stop_on_exit(spark: "SparkSession", log_file: Path) -> Iterator[None]:
    """Stop Spark, or raise `HelperEnded` if its process exited.

    Another thread stops it, since an interruption may have broken this thread's connection.
    """
    code: int | None = None
    try:
        with _log_connection_errors(log_file, spark):
            yield
    except CreekError:
        raise
    except Exception as error:
        code = _java_exit_code(spark, error)
        if code is not None:
            raise HelperEnded(_exit_report(code, log_file)) from error
        raise
    finally:
        if code is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # The process exits with this one in any case.
                stopping = threading.Thread(target=spark.stop)
                stopping.start()
                stopping.join()


@contextmanager
def _restore_interrupts(handler: "_HANDLER") -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGINT, and finally restore the `handler` from before Spark.

    Spark's own handler calls Java within another call. Py4J may raise another error if it is
    interrupted during a call.
    """
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
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
    if interrupted:
        raise KeyboardInterrupt


def _check_reachable(master: str) -> None:
    """Raise UsageError if no Spark master accepts connections. Spark retries for over a minute."""
    match = re.fullmatch(r"spark://(.*)", master)
    if match is None:
        return
    problem = "not an address"
    for address in match[1].split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S).close()
        except (OSError, ValueError, OverflowError) as error:
            problem = str(error)
        else:
            return
    raise UsageError(f"cannot connect to a Spark master at {master}: {problem}")


def is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def _is_on_this_host(master: str) -> bool:
    return is_local(master) or "//127.0.0.1" in master or "//localhost" in master


def _with_task_retries(master: str) -> str:
    """Enable retries of tasks with lost processes on a local master."""
    match = re.fullmatch(r"local\[([^,\]]+)\]", master)
    return f"local[{match[1]},{TASK_ATTEMPTS_MAX}]" if match else master


def _settings(master: str, scratch: Path, heap_mib: int) -> dict[str, str]:
    log_config = scratch / "log4j2.properties"
    log_config.write_text(_LOG4J_CONFIG)
    return {
        **(_LOOPBACK_SETTINGS if _is_on_this_host(master) else {}),
        "spark.driver.memory": f"{heap_mib}m",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log_config}",
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
    """Return settings for a local master. Tasks import modules from the same paths as this one."""
    cwd = os.getcwd()
    paths = {"spark.executorEnv.PYTHONPATH": cwd} if {"", cwd} & {*sys.path} else {}
    return {**paths, "spark.sql.shuffle.partitions": str(2 * _core_count())}


def _core_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _heap_mib() -> int:
    return min(max(_memory_mib() // HEAP_DIVISOR, HEAP_MIB_MIN), HEAP_MIB_MAX)


def _memory_mib() -> int:
    """Return the memory limit of this process: the cgroup's, or else that of the machine."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        allowed = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        allowed = "max"
    return min(total, int(allowed) if allowed.isdecimal() else total) // 2**20


@contextmanager
def _redirect_stderr(file: Path) -> Iterator[None]:
    """Redirect the standard error of this process and its children to `file`."""
    sys.stderr.flush()
    saved = os.dup(2)
    with file.open("wb") as stream:
        os.dup2(stream.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)


@contextmanager
def _log_connection_errors(file: Path, spark: "SparkSession") -> Iterator[None]:
    """Append errors of broken connections between this process and Java to `file`."""
    handler = logging.FileHandler(file)
    logging.getLogger().addHandler(handler)
    server: Any = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: logging.exception("connection to Spark failed")
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


def task_counts(spark: "SparkSession") -> tuple[int, int]:
    """Return the numbers of completed and of all tasks in active stages.

    Both are 0 if Spark has exited; `spark_session` reports that.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415 - optional dependency

    tracker = spark.sparkContext.statusTracker()
    try:
        infos = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
    except (OSError, Py4JError):
        return 0, 0
    stages = [info for info in infos if info is not None]
    done = sum(stage.numCompletedTasks for stage in stages)
    return done, sum(stage.numTasks for stage in stages)


def _java_exit_code(spark: "SparkSession", error: Exception) -> int | None:
    """Return the exit code of the Java process, or None if it runs."""
    from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415 - optional dependency

    process: subprocess.Popen[bytes] | None = getattr(spark.sparkContext._gateway, "proc", None)
    if process is None:
        return None
    is_java_exception = isinstance(error, Py4JJavaError)
    if isinstance(error, ConnectionError | EOFError | Py4JError) and not is_java_exception:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(EXIT_TIMEOUT_S)
    return process.poll()


def _exit_report(code: int, log_file: Path) -> str:
    """Save the log, and return the error text."""
    cause = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    file, name = tempfile.mkstemp(prefix="creek-spark-", suffix=".log")
    with os.fdopen(file, "wb") as saved:
        saved.write(log_file.read_bytes())
    return (
        f"Spark exited early: {cause}, often because of too little memory (log: {name}); "
        "repeat the command to resume, completed work is kept"
    )


def _startup_failure(error: Exception, log_file: Path) -> str:
    """Return the most specific line: the first Java exception, or else the first line."""
    log_lines = log_file.read_text(errors="replace").splitlines() if log_file.exists() else []
    for line in (*log_lines, *str(error).splitlines()):
        if match := _EXCEPTION_LINE.match(line.strip()):
            return match[1]
    lines = [line for line in (*str(error).splitlines(), *log_lines) if line.strip()]
    return lines[0].strip() if lines else type(error).__name__


def _package_archive(scratch: Path) -> Path:
    """Archive this package for executors that may not have it installed.

    Compiled modules are excluded: they cannot be imported from an archive or on other platforms.
    """
    package = Path(creekdb.__file__).parent
    archive = scratch / "creek.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(package.rglob("*")):
            compiled = "__pycache__" in path.parts or path.suffix in (".so", ".pyd")
            if path.is_file() and not compiled:
                file.write(path, Path("creekdb") / path.relative_to(package))
    return archive
