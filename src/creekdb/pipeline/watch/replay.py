"""Replay of committed changes: each operation runs again, and must respond and write the same.

The replay needs the whole history, from index 1, and the data type. Its state is the registers that
the changes wrote. It is stored with each batch, so that a later process continues.

Batches of calls and loads of rows run as at the replicas. The rows that a sink applies were staged
by calls that are not in the feed. So an application is not executed, and its writes are adopted.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

from creekdb.checkers.replay import equal_exactly
from creekdb.errors import MissingOperation, UsageError
from creekdb.execution.datatype import DataType
from creekdb.execution.sequential import Sequential
from creekdb.execution.transaction import ABSENT
from creekdb.pipeline.storage import Location
from creekdb.pipeline.watch.batch_tables import BatchTable
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.values import Key, freeze
from creekdb.server.calls.capabilities import DeduplicatingDataType
from creekdb.wire.changes import Change
from creekdb.wire.staging import APPLY

WRITES: Final = pa.schema(
    [
        pa.field("index", pa.int64(), nullable=False),
        pa.field("key", pa.binary(), nullable=False),
        pa.field("value", pa.binary(), nullable=True),
    ]
)
"""Registers after a batch: the encoded key and value; null if the register was deleted."""
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode


class Replay:
    """Sequential execution of a data type, with its registers stored by batch."""

    def __init__(self, datatype: DataType, directory: Location) -> None:
        self._machine = Sequential(DeduplicatingDataType(datatype))
        self._table = BatchTable(directory, WRITES, reduce=last_rows)
        self._is_loaded = False

    def load(self, before_batch: int) -> None:
        """Load the registers of the batches before this one."""
        if not self._is_loaded:
            self._is_loaded = True
            for row in self._table.read(before_batch).to_pylist():
                self._set(freeze(_decode(row["key"])), row["value"])

    def _set(self, key: Key, value: bytes | None) -> None:
        state, base = self._machine.state, self._machine.datatype.base
        if value is not None:
            state[key] = freeze(_decode(value))
        elif base.read(key) is ABSENT:
            state.pop(key, None)
        else:
            state[key] = ABSENT

    def run(self, batch: int, changes: Iterable[tuple[Change, bool]]) -> Iterator[tuple[int, str]]:
        """Execute changes in commit order; yield index and detail of those that differ.

        The flag of a change is True for a call that was executed before, and is not run again.
        After a difference, the registers of the change are used.
        """
        written: dict[Key, tuple[int, Any]] = {}
        for change, is_repeated in changes:
            if not is_repeated and (detail := self._difference(change)):
                yield change.index, detail
            for key, value in change.writes:
                written[key] = change.index, value
                self._machine.state[key] = value
            for key in change.deleted:
                written[key] = change.index, ABSENT
                self._set(key, None)
        rows = [
            (index, _encode(key), None if value is ABSENT else _encode(value))
            for key, (index, value) in written.items()
        ]
        columns = zip(*rows, strict=True) if rows else ((), (), ())
        arrays = [pa.array(each, field.type) for each, field in zip(columns, WRITES, strict=True)]
        self._table.write(batch, pa.table(arrays, schema=WRITES))

    def _difference(self, change: Change) -> str | None:
        """Return how the execution of a change differs from the change, or None."""
        if change.operation == APPLY:
            return None
        call = Operation(change.operation, change.arguments)
        request = Request(change.timestamp, change.id, call, change.strong)
        datatype = self._machine.datatype
        try:
            execution = datatype.run(request, self._machine)
        except MissingOperation:
            raise UsageError(
                f"cannot replay {_text(change)} at index {change.index}: data type "
                f"'{datatype.name}' has no such operation; name the data type of the cluster"
            ) from None
        outcome = execution.outcome
        if outcome.error != change.error:
            return f"{_text(change)} raised {change.error!r}, and its replay {outcome.error!r}"
        if not equal_exactly(outcome.value, change.value):
            return f"{_text(change)} returned {change.value!r}, and its replay {outcome.value!r}"
        state = self._machine
        expected = dict(execution.writes)
        for key, amount in execution.blind_adds.items():
            before = state.read(key)
            expected[key] = amount if before is ABSENT else before + amount
        actual = dict(change.writes) | dict.fromkeys(change.deleted, ABSENT)
        for key in expected.keys() | actual.keys():
            one, other = expected.get(key, state.read(key)), actual.get(key, state.read(key))
            if (one is ABSENT) != (other is ABSENT) or (
                one is not ABSENT and not equal_exactly(one, other)
            ):
                return f"{_text(change)} wrote {other!r} to {key!r}, and its replay {one!r}"
        return None


def last_rows(rows: pa.Table) -> pa.Table:
    """Return the last row of each key, without deleted registers that no base state has."""
    last: dict[bytes, int] = {}
    keys, indices = rows["key"].to_pylist(), rows["index"].to_pylist()
    for position, (key, index) in enumerate(zip(keys, indices, strict=True)):
        if key not in last or indices[last[key]] <= index:
            last[key] = position
    return rows.take(sorted(last.values()))


def _text(change: Change) -> str:
    return f"{change.operation} ({change.id.replica}.{change.id.event})"
