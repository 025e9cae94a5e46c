"""The job of `creek pipeline watch`: adds each batch to the kept tables, and refreshes the page."""

import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from creekdb.pipeline.spark.frames import spark_schema
from creekdb.pipeline.storage import Location
from creekdb.pipeline.watch import measures
from creekdb.pipeline.watch.batch_tables import BatchTable
from creekdb.pipeline.watch.feeds import ClusterAccess
from creekdb.pipeline.watch.following import (
    Batch,
    FollowSettings,
    Manifest,
    follow,
    open_directory,
)
from creekdb.pipeline.watch.page import PAGE_FILE, WatchView, render_page
from creekdb.pipeline.watch.source import FeedOptions
from creekdb.pipeline.watch.tables import KEPT_SCHEMAS, WATCH_SCHEMAS

US_PER_S: Final = 1_000_000
HISTORY_INTERVAL_S: Final = 0.5
"""Interval between batches over a history that no longer grows, in seconds."""
DEFAULT_STEP_S: Final = 1.0
DEFAULT_WINDOW_S: Final = 900.0
POINTS_MAX: Final = 300
"""Upper bound for the time steps of the tables of the window."""
STEP_FACTORS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
WATCH_DIR: Final = "watch"
"""Directory of the watch of a recorded live run, in the output directory of a grid."""
RESULT_FILE: Final = "rows.parquet"


class WatchProgress(NamedTuple):
    """State after one batch."""

    batch: int
    changes: int
    """Changes of this batch."""
    total: int
    """Changes in the kept tables."""
    apologies: int
    """Weak requests of the window whose response changed."""
    position: dict[int, int]
    """Index up to which each replica was read, by replica."""
    behind_s: float | None
    """Age of the last change of this batch, by the clocks of the replicas; None without one."""


class Watcher:
    def __init__(
        self,
        spark: SparkSession,
        out: Location,
        manifest: Manifest,
        step_s: float = DEFAULT_STEP_S,
        window_s: float = DEFAULT_WINDOW_S,
        refresh_s: float = 5.0,
    ) -> None:
        self._spark = spark
        self._out = out
        self._manifest = manifest
        self._step_us = round(step_s * US_PER_S)
        self._window_us = round(window_s * US_PER_S)
        self._refresh_s = refresh_s
        self._kept = {name: BatchTable(out / name, each) for name, each in KEPT_SCHEMAS.items()}
        self._window: dict[str, pa.Table] = {}
        """Rows of the kept tables that the window covers. Empty until the files are read."""
        self._shown_step_us = self._step_us
        self._index: dict[int, int] = {}
        self._view: WatchView | None = None
        self.total = 0

    def handle(self, batch: Batch) -> WatchProgress:
        """Add a batch to the tables, and write the page."""
        rows = self.add(batch)
        changes = pc.sum(rows["commits"]["commits"]).as_py() or 0
        newest_us = pc.max(rows["latency_counts"]["step_us"]).as_py()
        self.refresh(is_over=False)
        assert self._view is not None
        return WatchProgress(
            batch.number,
            changes,
            self.total,
            sum(row["apologies"] for row in self._view.apologies),
            dict(sorted(self._index.items())),
            None if newest_us is None else max(0.0, time.time() - newest_us / US_PER_S),
        )

    def add(self, batch: Batch) -> dict[str, pa.Table]:
        """Add a batch to the kept tables, and return its rows."""
        rows = batch_tables(batch.rows, self._step_us)
        if not self._window:
            self._extend_window({n: kept.read(batch.number) for n, kept in self._kept.items()})
        for name, table in rows.items():
            self._kept[name].write(batch.number, table)
        self._extend_window(rows)
        self._index |= batch.ends
        return rows

    def _extend_window(self, rows: Mapping[str, pa.Table]) -> None:
        """Add rows to the window and the total, and drop rows that are too old."""
        self.total += pc.sum(rows["commits"]["commits"]).as_py() or 0
        tables = {
            name: pa.concat_tables(
                [self._window.get(name, schema.empty_table()), rows[name].cast(schema)]
            )
            for name, schema in KEPT_SCHEMAS.items()
        }
        self._window, self._shown_step_us = window_of(tables, self._step_us, self._window_us)

    def refresh(self, is_over: bool) -> None:
        """Compute the tables of the window, and write them and the page."""
        if not self._window:
            self._extend_window({name: kept.read() for name, kept in self._kept.items()})
        step_us = self._shown_step_us
        frames = {
            name: self._spark.createDataFrame(table, spark_schema(KEPT_SCHEMAS[name]))
            for name, table in self._window.items()
        }
        results = {name: frame.toArrow() for name, frame in window_tables(frames, step_us).items()}
        for name, table in results.items():
            cast = table.cast(WATCH_SCHEMAS[name])
            (self._out / name / RESULT_FILE).write_table(cast)
        self._view = WatchView(
            servers=self._manifest.servers,
            cluster=self._manifest.cluster,
            updated_s=time.time(),
            refresh_s=None if is_over else self._refresh_s,
            step_us=step_us,
            total=self.total,
            **{name: table.to_pylist() for name, table in results.items()},
        )
        (self._out / PAGE_FILE).write_bytes(render_page(self._view).encode())


def watch_history(spark: SparkSession, out: Location, servers: Sequence[str]) -> Location:
    """Watch everything that a cluster has committed, and return the page."""
    options = FeedOptions(ClusterAccess(tuple(servers)))
    settings = FollowSettings(options, out, "watch", HISTORY_INTERVAL_S)
    watcher = Watcher(spark, out, open_directory(settings))
    follow(spark, settings, watcher.add, must_stop=lambda: True)
    watcher.refresh(is_over=True)
    return out / PAGE_FILE


def batch_tables(feed: DataFrame, step_us: int) -> dict[str, pa.Table]:
    """Return the rows that a batch adds to the kept tables."""
    frames = {
        "commits": measures.commits(feed, step_us),
        "latency_counts": measures.latency_counts(feed, step_us),
        "key_writes": measures.key_writes(feed),
    }
    return {name: frame.toArrow() for name, frame in frames.items()}


def window_of(
    kept: Mapping[str, pa.Table], step_us: int, window_us: int
) -> tuple[dict[str, pa.Table], int]:
    """Return the rows of the last `window_us`, and the step for their tables."""
    last = pc.max(kept["commits"]["step_us"]).as_py() or 0
    begin = last - window_us
    first = {"key_writes": begin // measures.KEY_STEP_US * measures.KEY_STEP_US}
    shown = {
        name: table.filter(
            pc.greater_equal(table["step_us"], first.get(name, begin))
        ).combine_chunks()
        for name, table in kept.items()
    }
    needed = (last - (pc.min(shown["commits"]["step_us"]).as_py() or 0)) // POINTS_MAX
    factors = (factor for factor in STEP_FACTORS if factor * step_us > needed)
    return shown, step_us * next(factors, STEP_FACTORS[-1])


def window_tables(frames: Mapping[str, DataFrame], step_us: int) -> dict[str, DataFrame]:
    """Return the tables of WATCH_SCHEMAS."""
    return {
        "throughput": measures.throughput(frames["commits"], step_us),
        "latency": measures.latency(frames["latency_counts"], step_us),
        "apologies": measures.apologies(frames["commits"]),
        "hot_keys": measures.hot_keys(frames["key_writes"]),
    }
