"""Spark session with a driver in a Java process: of Creek, or of `spark-submit`.

If Spark cannot start, the error quotes the relevant line of its log. If the Java process exits
early, its log file is kept.
"""

import atexit
import os
import re
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, ClassVar, Final

from creekdb.errors import CreekError, HelperEnded, UsageError
from creekdb.pipeline.spark import gateway
from creekdb.pipeline.spark.addresses import check_reachable
from creekdb.pipeline.spark.configuration import (
    Configuration,
    SparkOptions,
    configuration_directory,
    has_logging_configuration,
    java_process_defaults,
    resolve,
    settings_before_start,
)
from creekdb.pipeline.spark.executors import check_executors, send_code

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

EXECUTOR_EXITS_MAX: Final = 10
"""Exits of executors, before the first job ends, at which the cluster counts as broken."""
EXECUTOR_GRACE_S: Final = 10.0
"""Time for other executors to run the first job nevertheless, in seconds."""
WATCH_INTERVAL_S: Final = 0.5


@cache
def _socket_directory() -> Path:
    """Return the directory of the sockets between Java and Python, until this process ends.

    Spark keeps the directory of the first session of a Java process for all later ones.
    """
    directory = tempfile.mkdtemp(prefix="creek-sockets-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)


class Driver:
    """Session on a local master or a cluster. Its methods are those of `session._Backend`."""

    _java: ClassVar[gateway.JavaProcess | None] = None
    """Java process of all sessions of this Python process. Py4J supports one."""

    def __init__(
        self,
        options: SparkOptions,
        name: str,
        scratch: Path,
        heap_mib: int | None,
        report: Callable[[str], None],
    ) -> None:
        self._options = options
        self._name = name
        self._scratch = scratch
        self._heap_mib = heap_mib
        self._report = report
        self._configuration: Configuration | None = None
        self._context: SparkContext | None = None
        self._session: SparkSession | None = None
        self._resources = ExitStack()
        self._is_cancelled = threading.Event()
        self._has_exited = False

    def start(self) -> None:
        configuration, java = self._start_java()
        self._configuration = configuration
        if self._is_cancelled.is_set():
            return
        from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - optional dependency

        conf = SparkConf(loadDefaults=False).setAll(list(configuration.settings.items()))
        with gateway.environment({"PYSPARK_PYTHON": configuration.python}):
            try:
                self._context = SparkContext(conf=conf, gateway=java.gateway)
            except Exception as error:  # noqa: BLE001 - any failure becomes one line
                raise _start_failure(configuration.master, java.failure(error)) from None

    def _start_java(self) -> tuple[Configuration, gateway.JavaProcess]:
        """Return the configuration, and the Java process: a running one or a new one."""
        if gateway.is_submitted():
            java = Driver._java = Driver._java or gateway.connect()
            return self._resolve(java.settings(), None), java
        conf_dir = configuration_directory(os.environ, _spark_home())
        inherited = settings_before_start(os.environ, conf_dir)
        if Driver._java is not None:
            return self._resolve(inherited, None), Driver._java
        is_logged = not has_logging_configuration(conf_dir)
        files = gateway.JavaFiles()
        log_config = files.log_config if is_logged else None
        configuration = self._resolve(inherited, java_process_defaults(log_config, self._heap_mib))
        try:
            Driver._java = gateway.launch(files, configuration.launch_settings, is_logged)
        except Exception as error:  # noqa: BLE001 - any failure becomes one line
            raise _start_failure(configuration.master, files.failure(error)) from None
        return configuration, Driver._java

    def _resolve(
        self, inherited: Mapping[str, str], java_defaults: Mapping[str, str] | None
    ) -> Configuration:
        configuration = resolve(
            self._options,
            self._name,
            inherited,
            self._scratch,
            java_defaults=java_defaults,
            sockets=_socket_directory(),
        )
        if match := re.fullmatch(r"spark://(.*)", configuration.master):
            check_reachable(f"Spark master at {configuration.master}", match[1].split(","))
        return configuration

    def session(self) -> "SparkSession":
        from pyspark.sql import SparkSession  # noqa: PLC0415 - optional dependency

        assert self._context is not None
        assert self._configuration is not None
        if Driver._java is not None:
            self._resources.enter_context(Driver._java.log_connection_errors())
        for line in self._configuration.describe():
            self._report(line)
        with gateway.environment({"SPARK_REMOTE": None}):  # A master was named instead.
            spark = self._session = SparkSession.builder.getOrCreate()
        if self._configuration.is_local:
            for file in self._options.py_files:
                self._context.addPyFile(file)
        else:
            send_code(spark, self._scratch, self._options, is_remote=False)
            with cancel_if_executors_exit(self._executor_exits, self._context.cancelAllJobs):
                check_executors(spark, self._context.defaultParallelism)
        return spark

    @staticmethod
    def _executor_exits() -> list[str]:
        return Driver._java.executor_exits() if Driver._java is not None else []

    def exit_error(self, error: Exception) -> CreekError | None:
        java = Driver._java
        code = java.exit_code(error) if java is not None else None
        if java is None or code is None:
            return None
        self._has_exited = True
        return HelperEnded(gateway.exit_report(code, java.save_log()))

    def cancel(self) -> None:
        self._is_cancelled.set()

    def stop(self) -> None:
        with self._resources, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # The process exits with this one in any case.
            running = self._session or self._context
            if running is not None and not self._has_exited:
                running.stop()


@contextmanager
def cancel_if_executors_exit(
    exits: Callable[[], list[str]],
    cancel_jobs: Callable[[], None],
    grace_s: float = EXECUTOR_GRACE_S,
    interval_s: float = WATCH_INTERVAL_S,
) -> Iterator[None]:
    """Cancel the jobs of the body and raise UsageError if executors exit again and again.

    A standalone master restarts such executors without end. `cancel_jobs` is called until the body
    ends, since it cancels only running jobs, and the body may submit another one afterwards.
    """
    done = threading.Event()
    last_exit: str | None = None

    def watch() -> None:
        nonlocal last_exit
        first_s: float | None = None
        while not done.wait(interval_s):
            found = exits()
            if len(found) >= EXECUTOR_EXITS_MAX:
                first_s = monotonic() if first_s is None else first_s
                if monotonic() - first_s >= grace_s:
                    last_exit = found[-1]
                    cancel_jobs()

    watcher = threading.Thread(target=watch, name="spark-executors", daemon=True)
    watcher.start()
    try:
        yield
    except Exception:
        if last_exit is None:
            raise
    finally:
        done.set()
        watcher.join()
    if last_exit is not None:
        raise UsageError(f"{last_exit}; see the logs of its worker")


def _spark_home() -> Path:
    import pyspark  # noqa: PLC0415 - optional dependency

    return Path(pyspark.__file__).parent


def _start_failure(master: str, cause: str) -> UsageError:
    return UsageError(f"Spark cannot start on {master}: {cause}")
