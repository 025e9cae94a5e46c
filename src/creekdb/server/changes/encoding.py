"""Encoding of reported changes, as `creekdb.wire.changes.Change` declares it."""

from typing import Any, Final

import msgspec

from creekdb.execution.keys import RESERVED_PREFIXES
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.effects import StableChange
from creekdb.protocol.request import NOOP, Operation
from creekdb.protocol.values import Key
from creekdb.wire.batches import BATCH
from creekdb.wire.deduplication import INTERNAL_PREFIX, is_deduplicated
from creekdb.wire.staging import WRITING_OPERATIONS

_ARRAY_MARK: Final = b"\xdd"
"""First byte of a msgpack array whose length has four bytes."""
_CLIENT_OPERATIONS: Final = WRITING_OPERATIONS | {BATCH}
"""Operations with an internal name that write registers of clients."""
_encode_into: Final = msgspec.msgpack.Encoder().encode_into
_scratch: Final = bytearray()
"""Buffer of one change. It keeps its memory."""


class ChangeList:
    """Encoding of a list of changes.

    Changes are encoded one by one and joined in the end, since a buffer that grows is copied often.
    """

    def __init__(self) -> None:
        self._encoded: list[bytes] = []
        self.size_bytes = 0

    @property
    def count(self) -> int:
        return len(self._encoded)

    def append(self, change: StableChange, reported_us: int) -> None:
        """Append a change, unless its operation is one of Creek itself.

        `reported_us` is the time at which the replica reported the change.
        """
        if encode_change(_scratch, change, reported_us):
            self._encoded.append(bytes(_scratch))
            self.size_bytes += len(_scratch)

    def encode(self) -> bytes:
        """Return the encoding of the list."""
        return b"".join((_ARRAY_MARK, self.count.to_bytes(4), *self._encoded))


def encode_change(buffer: bytearray, change: StableChange, reported_us: int) -> bool:
    """Encode the change into the buffer. Return False for an operation of Creek itself.

    The registers of Creek itself, such as those of deduplication, are left out.
    """
    request, outcome = change.request, change.outcome
    call = client_call(request.operation)
    if call is None:
        return False
    client, number, name, arguments = call
    writes: list[tuple[Key, Any]] = []
    deleted: list[Key] = []
    for key, value in change.writes.items():
        if type(key) is tuple and key and key[0] in RESERVED_PREFIXES:
            continue
        if value is ABSENT:
            deleted.append(key)
        else:
            writes.append((key, value))
    _encode_into(
        (
            change.commit_index,
            request.id,
            request.timestamp,
            name,
            arguments,
            request.strong,
            change.changed,
            outcome.value,
            outcome.error,
            writes,
            deleted,
            _present(change.before),
            client,
            number,
            reported_us,
        ),
        buffer,
    )
    return True


def measure_change(change: StableChange) -> int:
    """Return the size of the encoded change, in bytes."""
    return len(_scratch) if encode_change(_scratch, change, 0) else 0


def client_call(operation: Operation) -> tuple[str, int, str, tuple[Any, ...]] | None:
    """Return client, number, name and arguments of a call, or None for one of Creek itself."""
    client, number = "", 0
    if is_deduplicated(operation):
        client, number, name, arguments = operation.arguments
        if not client:
            return None  # a mark of the expiry
    else:
        name, arguments = operation.name, operation.arguments
    if name == NOOP.name or (name.startswith(INTERNAL_PREFIX) and name not in _CLIENT_OPERATIONS):
        return None
    return client, number, name, arguments


def _present(values: dict[Key, Any] | None) -> list[tuple[Key, Any]] | None:
    """Return the registers of clients that had a value."""
    if values is None:
        return None
    return [
        (key, value)
        for key, value in values.items()
        if value is not ABSENT and not is_reserved(key)
    ]


def is_reserved(key: Key) -> bool:
    """True if the register is one of Creek itself."""
    return isinstance(key, tuple) and bool(key) and key[0] in RESERVED_PREFIXES
