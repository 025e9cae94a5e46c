"""Spark session of a Connect server, whose driver and executors belong to the server."""

import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from creekdb.errors import CreekError, UsageError
from creekdb.pipeline.spark import gateway
from creekdb.pipeline.spark.addresses import check_reachable
from creekdb.pipeline.spark.configuration import (
    CHECKSUM_SETTINGS,
    ENVIRONMENT_PYTHON,
    SESSION_DEFAULTS,
    SparkOptions,
    has_environment,
)
from creekdb.pipeline.spark.executors import check_executors, send_code

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_PORT: Final = 15002
PROBE_TASKS: Final = 2
"""Tasks that check the executors. The client cannot determine their number."""
PYTHON_SETTING: Final = "spark.sql.execution.pyspark.python"
INSTALL_HINT: Final = "install them with: pip install 'creekdb[connect]'"

_URL = re.compile(r"sc://([^/:]+)(?::(\d+))?(?:/.*)?")


class ConnectServer:
    """Session of a Connect server. Its methods are those of `session._Backend`."""

    def __init__(
        self,
        url: str,
        options: SparkOptions,
        name: str,
        scratch: Path,
        report: Callable[[str], None],
    ) -> None:
        self._url = url
        self._options = options
        self._name = name
        self._scratch = scratch
        self._report = report
        self._session: SparkSession | None = None
        self._resources = ExitStack()

    def start(self) -> None:
        match = _URL.fullmatch(self._url)
        if match is None:
            raise UsageError(
                f"cannot connect to {self._url}: not the URL of a Spark Connect server; "
                "expected sc://HOST:PORT"
            )
        if self._options.driver_memory is not None:
            raise UsageError(
                f"cannot set the driver's memory: the driver belongs to {self._url}; "
                "set it where that server starts"
            )
        try:
            import pyspark.sql.connect.session  # noqa: F401, PLC0415 - optional dependency
        except ImportError as error:
            raise UsageError(
                f"cannot use Spark Connect: packages are missing ({_first_line(error)}); "
                f"{INSTALL_HINT}"
            ) from None
        host, port = match[1], match[2] or DEFAULT_PORT
        check_reachable(f"Spark Connect server at {self._url}", [f"{host}:{port}"])

    def session(self) -> "SparkSession":
        from pyspark.sql import SparkSession  # noqa: PLC0415 - optional dependency

        # Functions of pyspark.sql read this variable, which the builder sets.
        self._resources.enter_context(gateway.environment({"SPARK_CONNECT_MODE_ENABLED": "1"}))
        defaults = {**SESSION_DEFAULTS, **CHECKSUM_SETTINGS}
        if has_environment({"spark.archives": ",".join(self._options.archives)}):
            defaults[PYTHON_SETTING] = ENVIRONMENT_PYTHON
        defaults = {key: value for key, value in defaults.items() if key not in self._options.conf}
        for key, value in sorted(defaults.items()):
            self._report(f"{key}={value}")
        builder = SparkSession.builder.remote(self._url).appName(self._name)
        try:
            spark = self._session = builder.getOrCreate()
            for key, value in {**defaults, **self._options.conf}.items():
                spark.conf.set(key, value)
        except Exception as error:  # noqa: BLE001 - any failure becomes one line
            raise UsageError(
                f"Spark cannot start on {self._url}: {_first_line(error)}; "
                "a static setting belongs to the start of the server"
            ) from None
        send_code(spark, self._scratch, self._options, is_remote=True)
        check_executors(spark, PROBE_TASKS)
        return spark

    def exit_error(self, error: Exception) -> CreekError | None:
        """Return None: `failures` explains a lost connection."""

    def cancel(self) -> None:
        """Do nothing: the start is short."""

    def stop(self) -> None:
        with self._resources:
            if self._session is not None:
                self._session.stop()


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
