"""Spark session: start in the background, stop, interruption, and errors of one line.

The session has a driver in a Java process of this machine (`driver`), or is one of a Spark Connect
server (`connect`). Errors of Spark itself arrive as exceptions; `failures` explains them.
"""

import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

from creekdb.errors import CreekError, UsageError
from creekdb.pipeline.spark.configuration import SparkOptions
from creekdb.pipeline.spark.connect import ConnectServer
from creekdb.pipeline.spark.driver import Driver

if TYPE_CHECKING:
    from signal import _HANDLER

    from pyspark.sql import SparkSession as SparkSession

INSTALL_HINT: Final = "install them with: pip install 'creekdb[spark]'"

DEFAULT_OPTIONS: Final = SparkOptions()


def _discard(line: str) -> None:
    """Report nothing."""


@contextmanager
def spark_session(
    options: SparkOptions | str = DEFAULT_OPTIONS,
    name: str = "creek",
    heap_mib: int | None = None,
    report: Callable[[str], None] = _discard,
) -> Iterator["SparkSession"]:
    """Yield a session, and stop it at the end.

    A process has one session at a time. An active session is reused, and stays open. A text as
    `options` is the URL of a master. The default heap of the driver depends on the machine's
    memory. `report` receives the settings that Creek adds, one line each.
    """
    with starting_session(options, name, heap_mib, report) as wait_for_session:
        yield wait_for_session()


@contextmanager
def starting_session(
    options: SparkOptions | str = DEFAULT_OPTIONS,
    name: str = "creek",
    heap_mib: int | None = None,
    report: Callable[[str], None] = _discard,
) -> Iterator[Callable[[], "SparkSession"]]:
    """Start a session in the background, and yield a function that waits for it.

    Other work can go on before the caller waits. The function raises the errors of the start. The
    session is stopped at the end, even if the caller never waited for it.
    """
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise UsageError(
            f"cannot run the pipeline: packages are missing ({error}); {INSTALL_HINT}"
        ) from None
    if (active := SparkSession.getActiveSession()) is not None:
        yield lambda: active
        return
    options = SparkOptions.parse(options)
    with tempfile.TemporaryDirectory(prefix="creek-spark-") as directory:
        scratch = Path(directory)
        backend: _Backend
        if (url := _connect_url(options)) is not None:
            backend = ConnectServer(url, options, name, scratch, report)
        else:
            backend = Driver(options, name, scratch, heap_mib, report)
        with ExitStack() as stack:
            wait_for_start = stack.enter_context(_stop_on_exit(backend))

            @cache
            def wait_for_session() -> "SparkSession":
                # Work before this point keeps its own handling of interruptions.
                stack.enter_context(_keep_interrupts())
                return wait_for_start()

            yield wait_for_session


class _Backend(Protocol):
    """Kind of session: one with a driver of its own, or one of a Connect server."""

    def start(self) -> None:
        """Start all that takes long; called in a background thread."""

    def session(self) -> "SparkSession":
        """Return the session after the start; called in the caller's thread."""

    def exit_error(self, error: Exception) -> CreekError | None:
        """Return a report of the backend's exit if it caused the error."""

    def cancel(self) -> None:
        """Prevent the rest of a start that goes on."""

    def stop(self) -> None:
        """Stop the session, after the start has ended."""


@contextmanager
def _stop_on_exit(backend: _Backend) -> Iterator[Callable[[], "SparkSession"]]:
    """Start a backend in a thread, yield a function that waits for it, and finally stop it."""
    started: Future[None] = Future()

    def start() -> None:
        try:
            backend.start()
            started.set_result(None)
        except BaseException as error:  # noqa: BLE001 - raised by the function below
            started.set_exception(error)

    def wait_for_session() -> "SparkSession":
        started.result()
        return backend.session()

    thread = threading.Thread(target=start, name="spark-start")
    thread.start()
    try:
        yield wait_for_session
    except CreekError:
        raise
    except Exception as error:
        if (report := backend.exit_error(error)) is not None:
            raise report from error
        raise
    finally:
        # Another thread stops it, since an interruption may have broken this thread's connection.
        stopping = threading.Thread(target=_stop_after, args=(thread, backend), name="spark-stop")
        stopping.start()
        stopping.join()


def _stop_after(start: threading.Thread, backend: _Backend) -> None:
    backend.cancel()
    start.join()
    backend.stop()


@contextmanager
def _keep_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGINT, and finally restore the previous handler.

    Py4J may raise another error if it is interrupted during a call.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupted = False

    def interrupt(*_: object) -> NoReturn:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    handler: _HANDLER = signal.signal(signal.SIGINT, interrupt)
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


def _connect_url(options: SparkOptions) -> str | None:
    """Return the URL of a Connect server, or None for a driver of this process."""
    if options.remote is not None and options.master is not None:
        raise UsageError(
            f"cannot use --master {options.master} with --remote {options.remote}: "
            "a Connect server has its own master; name one of them"
        )
    if options.master is not None:
        return None
    return options.remote or options.conf.get("spark.remote") or os.environ.get("SPARK_REMOTE")


def is_local_session(spark: "SparkSession") -> bool:
    """True if the driver and the executors of the session run on this machine."""
    from pyspark.sql import is_remote  # noqa: PLC0415 - optional dependency

    return not is_remote() and str(spark.sparkContext.master).startswith("local")


def task_counts(spark: "SparkSession") -> tuple[int, int]:
    """Return the numbers of completed and of all tasks in active stages.

    Both are 0 if Spark has exited, which `spark_session` reports, and on a Connect server.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415 - optional dependency
    from pyspark.sql import is_remote  # noqa: PLC0415

    if is_remote():
        return 0, 0
    tracker = spark.sparkContext.statusTracker()
    try:
        infos = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
    except (OSError, Py4JError):
        return 0, 0
    stages = [info for info in infos if info is not None]
    done = sum(stage.numCompletedTasks for stage in stages)
    return done, sum(stage.numTasks for stage in stages)
