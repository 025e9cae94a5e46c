"""Java process of the driver: its start, its log, and its early exit.

`spark-submit` starts the process itself. Otherwise Creek starts one, which serves all sessions of
this Python process and exits with it. The standard error of the process goes to a log file from its
start, unless the user's own configuration of the log exists.
"""

import atexit
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from creekdb.pipeline.spark.java import java_home

EXIT_TIMEOUT_S: Final = 5.0
"""Time for the Java process to exit after its connection broke, in seconds."""

_LOG_CONFIG: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %m%n%throwable
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.executors.name = org.apache.spark.deploy.client
logger.executors.level = info
"""
_EXECUTOR_ADDED = re.compile(r"Executor added: (\S+) on \S+ \(([^:)]+)")
_EXECUTOR_ENDED = re.compile(r"Executor updated: (\S+) is now (?:EXITED|FAILED) ?(?:\((.*)\))?")
_EXCEPTION_LINE = re.compile(
    r"^(?:Exception in thread \"\S+\" |Caused by: |: )?[\w.$]+(?:Exception|Error): (.+)"
)


def is_submitted() -> bool:
    """True if `spark-submit` started this process, with a Java process of its own."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


class JavaProcess:
    """Connection to the Java process, its log, and its exit code."""

    def __init__(self, gateway: Any, log_file: Path | None) -> None:
        self.gateway = gateway
        self._log_file = log_file
        self._process: subprocess.Popen[bytes] | None = gateway.proc

    def settings(self) -> dict[str, str]:
        """Return the settings that the process has loaded: of `spark-submit` and of files."""
        return {pair._1(): pair._2() for pair in self.gateway.jvm.SparkConf(True).getAll()}

    def failure(self, error: Exception) -> str:
        """Return one line for a session that could not start."""
        return _first_exception(str(error), self._log())

    def exit_code(self, error: Exception) -> int | None:
        """Return the exit code of the process after an error, or None if it runs."""
        from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415 - optional dependency

        if self._process is None:
            return None
        is_java_exception = isinstance(error, Py4JJavaError)
        if isinstance(error, ConnectionError | EOFError | Py4JError) and not is_java_exception:
            with suppress(subprocess.TimeoutExpired):
                return self._process.wait(EXIT_TIMEOUT_S)
        return self._process.poll()

    def _log(self) -> str:
        if self._log_file is None or not self._log_file.exists():
            return ""
        return self._log_file.read_text(errors="replace")

    def executor_exits(self) -> list[str]:
        """Return the exits of executors of a standalone cluster, one line each, with their host.

        The list is empty if the log is not Creek's.
        """
        log = self._log()
        hosts = dict(_EXECUTOR_ADDED.findall(log))
        return [
            f"executors on {hosts.get(name, 'a worker')} exit at once: {cause or 'no reason given'}"
            for name, cause in _EXECUTOR_ENDED.findall(log)
        ]

    def save_log(self) -> str:
        """Copy the log to a file that outlives this process; return its name."""
        file, name = tempfile.mkstemp(prefix="creek-spark-", suffix=".log")
        with os.fdopen(file, "w") as saved:
            saved.write(self._log())
        return name

    @contextmanager
    def log_connection_errors(self) -> Iterator[None]:
        """Append errors of broken connections to the log, in place of the terminal.

        Py4J reports them to the root logger, and the servers of accumulators to the standard error.
        """
        from pyspark.accumulators import (  # noqa: PLC0415 - optional dependency
            AccumulatorTCPServer,
            AccumulatorUnixServer,
        )

        handler = logging.FileHandler(self._log_file) if self._log_file else logging.NullHandler()
        logging.getLogger().addHandler(handler)
        servers: tuple[Any, ...] = (AccumulatorTCPServer, AccumulatorUnixServer)
        originals = [server.handle_error for server in servers]
        for server in servers:
            server.handle_error = _log_request_error
        try:
            yield
        finally:
            for server, original in zip(servers, originals, strict=True):
                server.handle_error = original
            logging.getLogger().removeHandler(handler)
            handler.close()


def _log_request_error(*_: object) -> None:
    logging.exception("the connection to Spark failed")


class JavaFiles:
    """Temporary files of a Java process that Creek starts: Java, logging, log."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="creek-java-"))
        atexit.register(shutil.rmtree, self.path, ignore_errors=True)
        self.java_home = java_home(self.path)
        self.log_config = self.path / "log4j2.properties"
        self.log_config.write_text(_LOG_CONFIG)
        self.log_file = self.path / "java.log"

    def failure(self, error: Exception) -> str:
        """Return one line for a process that could not start."""
        log = self.log_file.read_text(errors="replace") if self.log_file.exists() else ""
        return _first_exception(log, str(error))


def _first_exception(*texts: str) -> str:
    """Return the message of the first Java exception in the texts, or else their last line."""
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    for line in lines:
        if match := _EXCEPTION_LINE.match(line):
            return match[1]
    return lines[-1] if lines else "no reason was reported"


def connect() -> JavaProcess:
    """Connect to the Java process of `spark-submit`."""
    return JavaProcess(_launch_gateway(), None)


def launch(files: JavaFiles, settings: Mapping[str, str], is_logged: bool) -> JavaProcess:
    """Start a Java process. With `is_logged`, its standard error goes to a file."""
    from pyspark import SparkConf  # noqa: PLC0415 - optional dependency

    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with environment({"JAVA_HOME": str(files.java_home), **_data_source_python()}):
        if not is_logged:
            return JavaProcess(_launch_gateway(conf), None)
        with files.log_file.open("wb") as log:
            gateway = _launch_gateway(conf, {"stderr": log})
    return JavaProcess(gateway, files.log_file)


def _data_source_python() -> dict[str, str]:
    """Return the variable by which Spark finds the Python that plans data sources.

    The default is the first `python3` of the path, which may lack this package.
    """
    if "PYSPARK_PYTHON" in os.environ or "PYSPARK_DRIVER_PYTHON" in os.environ:
        return {}
    return {"PYSPARK_DRIVER_PYTHON": sys.executable}


def _launch_gateway(*arguments: Any) -> Any:
    from pyspark import java_gateway  # noqa: PLC0415 - optional dependency

    untyped: Any = java_gateway
    return untyped.launch_gateway(*arguments)


def exit_report(code: int, log_name: str) -> str:
    cause = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return (
        f"Spark exited early: {cause}, often because of too little memory (log: {log_name}); "
        "repeat the command to resume, completed work is kept"
    )


@contextmanager
def environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables, or remove those that are None, and finally restore them."""
    saved = {name: os.environ.get(name) for name in changes}
    _apply(changes)
    try:
        yield
    finally:
        _apply(saved)


def _apply(changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
