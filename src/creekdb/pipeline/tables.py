"""Tables of the pipeline as Spark frames, for notebooks and programs.

    import creekdb.pipeline

    tables = creekdb.pipeline.read("runs/quick")
    tables.operations.groupBy("kind").count().show()

`read` accepts the output of `creek pipeline run` and `watch`, an export of `creek export`, and the
TPC-C data of `creek pipeline generate`, on any file system that Spark can access.
"""

import atexit
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from creekdb.errors import UnknownName, UsageError
from creekdb.pipeline.schemas import EXPORT_SCHEMAS, RESULT_SCHEMAS, RUN_SCHEMAS
from creekdb.pipeline.storage import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _schemas_by_manifest() -> dict[str, Mapping[str, pa.Schema]]:
    from creekdb.pipeline.stages.population import POPULATION_SCHEMAS  # noqa: PLC0415 - numpy
    from creekdb.pipeline.watch.tables import KEPT_SCHEMAS, WATCH_SCHEMAS  # noqa: PLC0415

    return {
        "pipeline.json": RUN_SCHEMAS | RESULT_SCHEMAS,
        "export.json": EXPORT_SCHEMAS,
        "population.json": POPULATION_SCHEMAS,
        "watch.json": KEPT_SCHEMAS | WATCH_SCHEMAS,
    }


class Tables(Mapping[str, "DataFrame"]):
    """Frames by table name, as items or as attributes. A table is read when it is used."""

    def __init__(
        self, spark: "SparkSession", directory: Location, schemas: Mapping[str, pa.Schema]
    ) -> None:
        self._spark = spark
        self._directory = directory
        self._schemas = {
            name: schema for name, schema in schemas.items() if (directory / name).names()
        }

    def __getitem__(self, name: str) -> "DataFrame":
        from creekdb.pipeline.spark.frames import spark_schema  # noqa: PLC0415 - optional

        if name not in self._schemas:
            raise KeyError(str(UnknownName("table", name, tuple(self._schemas))))
        schema = spark_schema(self._schemas[name])
        return self._spark.read.schema(schema).parquet((self._directory / name).uri)

    def __getattr__(self, name: str) -> "DataFrame":
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._schemas)

    def __len__(self) -> int:
        return len(self._schemas)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._schemas]

    def __repr__(self) -> str:
        return f"Tables({str(self._directory)!r}: {', '.join(self._schemas)})"


def read(path: str | Path, spark: "SparkSession | None" = None) -> Tables:
    """Return the tables in a directory.

    Without `spark`, the active session is used, or a local one is started that lasts until the
    process ends.
    """
    directory = Location.parse(path)
    for manifest, schemas in _schemas_by_manifest().items():
        if (directory / manifest).is_file():
            return Tables(spark or _session(), directory, schemas)
    raise UsageError(
        f"cannot read {directory}: it holds no tables; name an output of 'creek pipeline run', "
        "'creek pipeline watch', 'creek pipeline generate' or 'creek export'"
    )


def watch_cluster(servers: str, path: str | Path, spark: "SparkSession | None" = None) -> Tables:
    """Measure everything that a live cluster has committed, and return the tables.

    `servers` are the client addresses of all replicas, separated by commas. The tables and the page
    `watch.html` are written to a directory, which a later call continues.
    """
    from creekdb.pipeline.watch.feeds import parse_servers  # noqa: PLC0415
    from creekdb.pipeline.watch.watcher import watch_history  # noqa: PLC0415

    session = spark or _session()
    watch_history(session, Location.parse(path), parse_servers(servers))
    return read(path, session)


_sessions: Final = ExitStack()


def _session() -> "SparkSession":
    from creekdb.pipeline.spark.session import spark_session  # noqa: PLC0415 - optional dependency

    atexit.register(_sessions.close)
    return _sessions.enter_context(spark_session())
