"""The job of `creek pipeline audit`: judges each batch with the state that earlier batches left.

The state after a batch is a directory named by its number, complete once it has `STATE_FILE`. A
batch that Spark repeats starts from the state before it, and replaces its own.

An index is judged once, with the replicas that have reached it or were left out. Changes that a
replica contributes later, because it did not respond before, are ignored.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from creekdb.errors import ChangesExpired, UsageError
from creekdb.pipeline.spark.frames import spark_schema
from creekdb.pipeline.storage import Location
from creekdb.pipeline.watch import checks, feeds
from creekdb.pipeline.watch.batch_tables import BatchTable
from creekdb.pipeline.watch.checks import FEED_CHECKERS, OrderState
from creekdb.pipeline.watch.following import Batch
from creekdb.pipeline.watch.replay import Replay
from creekdb.pipeline.watch.source import FeedOptions
from creekdb.pipeline.watch.tables import ENTRIES, ORIGINS, RANGES, SEEN_CALLS, VIOLATIONS
from creekdb.wire.changes import LATEST, Change, decode_changes

STATE_FILE: Final = "state.json"
STATES_KEPT: Final = 3
REPLAY: Final = "replay"
UNKNOWN_REPLICA: Final = -1
"""Number of a server that never responded, in states of earlier versions."""
STATE_SCHEMAS: Final = {
    "entries": ENTRIES,
    "ranges": RANGES,
    "seen": SEEN_CALLS,
    "origins": ORIGINS,
}


class Progress(msgspec.Struct, frozen=True):
    """Position of the audit after a batch."""

    position: dict[int, int] = {}
    """Index up to which each replica was read, by replica."""
    frontier: int = 0
    """Index before which everything is judged."""
    first: int = 0
    """First index that was judged; 0 without one."""
    compared: int = 0
    """Judged changes."""
    alone: int = 0
    """Judged changes that only one replica has."""
    last_call_us: int = 0
    """Time of the last strong call."""
    replayed: int = 0
    """Judged changes that the replay has followed."""


class Finding(msgspec.Struct, frozen=True):
    """Violation of a property."""

    checker: str
    index: int
    detail: str


class AuditStep(NamedTuple):
    """Result of one batch."""

    batch: int
    progress: Progress
    findings: list[Finding]


class StateDirectory:
    """States after the last batches."""

    def __init__(self, directory: Location) -> None:
        self._directory = directory

    def numbers(self) -> list[int]:
        """Return the batches whose state is complete, in order."""
        numbers = (int(name) for name in self._directory.names() if name.isdecimal())
        return sorted(each for each in numbers if (self.path(each) / STATE_FILE).is_file())

    def path(self, batch: int) -> Location:
        return self._directory / f"{batch:09}"

    def progress(self, batch: int) -> Progress:
        content = (self.path(batch) / STATE_FILE).read_bytes()
        return msgspec.json.decode(content, type=Progress)

    def last_progress(self) -> Progress | None:
        numbers = self.numbers()
        return self.progress(numbers[-1]) if numbers else None


def states_of(out: Location) -> StateDirectory:
    """Return the states of the audit in a directory."""
    return StateDirectory(out / "state")


def check_replayable(options: FeedOptions, out: Location) -> None:
    """Raise `UsageError` unless a replay can begin, or continue that of an earlier audit."""
    progress = states_of(out).last_progress()
    if progress is not None:
        if progress.replayed < progress.compared:
            raise UsageError(
                f"cannot replay the history: {out} was audited without a data type, up to index "
                f"{progress.frontier - 1}; name another directory, or omit the data type"
            )
        return
    asyncio.run(feeds.ready_ends(options.access))
    first = min(asyncio.run(feeds.first_indices(options.access)).values(), default=1)
    if options.starting_index > 1 or options.starting_index == LATEST or first > 1:
        raise UsageError(
            f"cannot replay the history: it starts at {max(first, options.starting_index)}, and a "
            "replay begins at index 1; omit the data type, and start at 'earliest'"
        )


class Auditor:
    def __init__(
        self,
        spark: SparkSession,
        out: Location,
        clock_error_us: int = checks.DEFAULT_CLOCK_ERROR_US,
        replay: Replay | None = None,
    ) -> None:
        self._spark = spark
        self._out = out
        self._clock_error_us = clock_error_us
        self._replay = replay
        self._violations = BatchTable(out / "violations", VIOLATIONS)
        self._states = states_of(out)
        self.progress = Progress()

    def handle(self, batch: Batch) -> AuditStep:
        """Judge a batch, and store the violations and the state."""
        tables, earlier = self._load(batch.number)
        state = {name: self._frame(name, table) for name, table in tables.items()}
        ends = earlier.position | batch.ends
        position = {number: end for number, end in ends.items() if number != UNKNOWN_REPLICA}
        frontier = max(earlier.frontier, min(position.values(), default=0))
        new_ranges = checks.ranges_of(batch.rows).toArrow().cast(RANGES)
        ranges = pa.concat_tables([tables["ranges"], new_ranges])
        if self._replay is not None:
            _check_complete(ranges, earlier.frontier, frontier)
        received = checks.entries_of(batch.rows).where(f"index >= {earlier.frontier}")
        entries = received.unionByName(state["entries"]).persist()
        agreed = checks.agreed_changes(entries, frontier).persist()
        try:
            order = OrderState(state["seen"], state["origins"], earlier.last_call_us)
            range_rows = self._frame("ranges", ranges)
            found = checks.disagreements(entries, range_rows, frontier).unionByName(
                checks.order_violations(agreed, order, self._clock_error_us)
            )
            findings = [Finding(*row) for row in found.collect()]
            findings.sort(key=lambda each: (each.index, each.checker))
            following = {
                "entries": checks.remaining(entries, frontier).toArrow(),
                "ranges": ranges.filter(pc.greater(ranges["stop"], frontier)),
                "seen": checks.seen_calls(agreed, state["seen"], frontier).toArrow(),
                "origins": checks.highest_events(agreed, state["origins"]).toArrow(),
            }
            progress = _progress(earlier, position, frontier, agreed)
            if self._replay is not None:
                findings += self._replayed(batch.number, agreed, tables["seen"])
                progress = msgspec.structs.replace(
                    progress, replayed=earlier.replayed + progress.compared - earlier.compared
                )
        finally:
            entries.unpersist()
            agreed.unpersist()
        self._violations.write(batch.number, _violation_rows(findings))
        self._save(batch.number, following, progress)
        self.progress = progress
        return AuditStep(batch.number, progress, findings)

    def load_progress(self) -> None:
        """Continue the counts of an earlier audit."""
        self.progress = self._states.last_progress() or Progress()

    @property
    def violations(self) -> list[Finding]:
        """Violations of all batches."""
        return [Finding(**row) for row in self._violations.read().to_pylist()]

    def _replayed(self, batch: int, agreed: DataFrame, seen: pa.Table) -> list[Finding]:
        assert self._replay is not None
        self._replay.load(batch)
        known = set(zip(seen["client"].to_pylist(), seen["number"].to_pylist(), strict=True))
        rows = agreed.select("index", "body").orderBy("index").select("body").toLocalIterator()
        changes = _with_repetitions((decode_changes(bytes(row[0]))[0] for row in rows), known)
        return [Finding(REPLAY, *each) for each in self._replay.run(batch, changes)]

    # --- state ------------------------------------------------------------------------------------

    def _frame(self, name: str, table: pa.Table) -> DataFrame:
        """Return the frame of a table of the state."""
        return self._spark.createDataFrame(
            table.combine_chunks(), spark_schema(STATE_SCHEMAS[name])
        )

    def _load(self, batch: int) -> tuple[dict[str, pa.Table], Progress]:
        """Return the state before a batch."""
        before = [each for each in self._states.numbers() if each < batch]
        tables = {
            name: (self._states.path(before[-1]) / f"{name}.parquet").read_table()
            if before
            else schema.empty_table()
            for name, schema in STATE_SCHEMAS.items()
        }
        return tables, self._states.progress(before[-1]) if before else Progress()

    def _save(self, batch: int, tables: dict[str, pa.Table], progress: Progress) -> None:
        directory = self._states.path(batch)
        directory.remove()
        for name, table in tables.items():
            (directory / f"{name}.parquet").write_table(table.cast(STATE_SCHEMAS[name]))
        (directory / STATE_FILE).write_bytes(msgspec.json.encode(progress))
        for each in self._states.numbers()[:-STATES_KEPT]:
            self._states.path(each).remove()


def _progress(
    earlier: Progress, position: dict[int, int], frontier: int, agreed: DataFrame
) -> Progress:
    counted = agreed.selectExpr(
        "count(*)",
        "min(index)",
        "count_if(replicas = 1)",
        "max(if(strong, timestamp_us, 0))",
    ).collect()[0]
    return Progress(
        position,
        frontier,
        earlier.first or counted[1] or 0,
        earlier.compared + counted[0],
        earlier.alone + counted[2],
        max(earlier.last_call_us, counted[3] or 0),
        earlier.replayed,
    )


def _check_complete(ranges: pa.Table, start: int, stop: int) -> None:
    """Raise `ChangesExpired` if no replica has contributed some indices up to `stop`."""
    known = zip(ranges["start"].to_pylist(), ranges["stop"].to_pylist(), strict=True)
    gap = first_gap(known, max(start, 1), stop)
    if gap is not None:
        raise ChangesExpired(
            f"cannot replay the changes from {gap[0]} to {gap[1] - 1}, because no replica that "
            "responds keeps them; audit without the data type in another directory",
            gap[1],
        )


def first_gap(ranges: Iterable[tuple[int, int]], start: int, stop: int) -> tuple[int, int] | None:
    """Return the first indices from `start` up to `stop` that no range has, or None."""
    for first, end in sorted(ranges):
        if start >= stop or first > start:
            return None if start >= stop else (start, min(first, stop))
        start = max(start, end)
    return (start, stop) if start < stop else None


def _with_repetitions(
    changes: Iterator[Change], known: set[tuple[str, int]]
) -> Iterator[tuple[Change, bool]]:
    """Add to each change whether an earlier one has the same call."""
    for change in changes:
        call = change.client, change.number
        yield change, bool(change.client) and call in known
        known.add(call)


def _violation_rows(findings: list[Finding]) -> pa.Table:
    rows: list[dict[str, Any]] = [msgspec.structs.asdict(each) for each in findings]
    return pa.Table.from_pylist(rows, VIOLATIONS)


def verdicts(findings: list[Finding], has_replay: bool) -> dict[str, str]:
    """Return a verdict by checker."""
    broken = {each.checker for each in findings}
    names = (*FEED_CHECKERS, *((REPLAY,) if has_replay else ()))
    return {name: "illegal" if name in broken else "ok" for name in names}
