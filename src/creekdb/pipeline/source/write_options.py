"""Options of `format("creek")` for writing, in batches and in streams."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from creekdb.errors import UsageError
from creekdb.pipeline.source.options import (
    CLUSTER_OPTIONS,
    INDEX_MAX,
    ClusterOptions,
    OptionReader,
)
from creekdb.pipeline.storage import Location
from creekdb.wire.sink_ledgers import UNNAMED_PREFIX

WRITE_OPTIONS: Final = (
    "table",
    "operation",
    "mode",
    "jsonColumns",
    "sink",
    "consistency",
    "atomic",
    "onRejected",
    "deadLetter",
)
BATCH_WRITE_OPTIONS: Final = ("batchId",)
_NO_BULK_OPTIONS: Final = (
    "operation",
    "sink",
    "batchId",
    "consistency",
    "atomic",
    "onRejected",
    "deadLetter",
)
MODES: Final = ("upsert", "insert", "bulk")
LEVELS: Final = ("strong", "weak")


@dataclass(frozen=True)
class WriteTarget:
    """Table or operation that rows are written to."""

    table: str | None = None
    """SQL table. None calls an operation."""
    operation: str | None = None
    """Operation of the data type that is called for each row. None stores keys and values."""
    mode: str = "upsert"
    """`upsert` or `insert` rows by primary key; `bulk` upserts without a ledger."""
    json_columns: tuple[str, ...] = ()
    """Columns of JSON texts, whose values are written."""


@dataclass(frozen=True)
class WriteOptions:
    """Options of one query that writes."""

    cluster: ClusterOptions
    target: WriteTarget
    sink: str | None = None
    """Name of the ledger."""
    batch: int | None = None
    """Number of a batch write, which makes its repetition harmless."""
    is_strong: bool = True
    is_atomic: bool = False
    dead_letter: str | None = None
    """Directory for rejected rows. None fails at the first one."""

    @property
    def is_bulk(self) -> bool:
        return self.target.mode == "bulk"

    @classmethod
    def parse(cls, given: Mapping[str, str], *, is_stream: bool) -> "WriteOptions":
        options = OptionReader(given)
        allowed = (*CLUSTER_OPTIONS, *WRITE_OPTIONS, *(() if is_stream else BATCH_WRITE_OPTIONS))
        if is_stream and options.has("batchId"):
            raise UsageError(
                "option batchId is for batch writes: Spark numbers the batches of a stream; omit "
                "batchId"
            )
        options.refuse_others(allowed, "a writing stream" if is_stream else "a batch write")
        table, operation = options.text("table"), options.text("operation")
        if table is not None and operation is not None:
            raise UsageError(
                "options table and operation exclude each other: a row is written to the table, or "
                "is the arguments of the operation; omit one"
            )
        mode = options.choice("mode", "upsert", MODES)
        if mode == "insert" and table is None:
            raise UsageError(
                "option mode is 'insert', which is for tables: set option table, or option "
                "operation to an operation that inserts"
            )
        sink, batch = options.text("sink"), options.integer("batchId", None, 0, INDEX_MAX)
        if sink is not None and sink.startswith(UNNAMED_PREFIX):
            options.refuse("sink", f"a name that does not begin with '{UNNAMED_PREFIX}'")
        if not is_stream and mode != "bulk":
            _check_batch_number(sink, batch)
        if mode == "bulk":
            _check_bulk(options)
        json_columns = [each.strip() for each in (options.text("jsonColumns") or "").split(",")]
        return cls(
            ClusterOptions.parse(options),
            WriteTarget(table, operation, mode, tuple(filter(None, json_columns))),
            sink,
            batch,
            options.choice("consistency", "strong", LEVELS) == "strong",
            options.flag("atomic", False),
            _dead_letter(options),
        )


def _check_batch_number(sink: str | None, batch: int | None) -> None:
    if (sink is None) is not (batch is None):
        missing = "sink" if sink is None else "batchId"
        raise UsageError(
            f"option {missing} is missing: sink and batchId together make a batch write "
            "repeatable; set both, or neither"
        )


def _check_bulk(options: OptionReader) -> None:
    for name in _NO_BULK_OPTIONS:
        if options.has(name):
            raise UsageError(
                f"option {name} does not apply with mode=bulk, which upserts rows by key without a "
                f"ledger; omit {name}"
            )


def _dead_letter(options: OptionReader) -> str | None:
    path = options.text("deadLetter")
    default = "fail" if path is None else "deadLetter"
    text = (options.text("onRejected") or default).lower()
    if text not in ("fail", "deadletter"):
        options.refuse("onRejected", "fail or deadLetter")
    if text == "fail":
        if path is not None:
            raise UsageError("option deadLetter does not apply with onRejected=fail; omit one")
        return None
    if path is None:
        raise UsageError(
            "option deadLetter is missing: with onRejected=deadLetter, set it to a directory for "
            "rejected rows"
        )
    Location.parse(path)
    return path
