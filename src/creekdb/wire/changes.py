"""Changes of the feed: committed requests, with their final responses and the values they wrote.

A change has one encoding, in the segments of a replica and on the wire. A replica therefore passes
changes on without decoding them. New fields are added at the end, with a default.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from creekdb.errors import DECODE_ERRORS, MalformedMessage
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.values import Key, freeze
from creekdb.wire.json_values import to_json

_EARLIEST_TEXT: Final = "earliest"
_LATEST_TEXT: Final = "latest"
EARLIEST: Final = 0
"""Start of a reader at the first change that a replica keeps."""
LATEST: Final = -1
"""Start of a reader after the last change that a replica has."""


class Change(msgspec.Struct, frozen=True, array_like=True):
    """One committed request."""

    index: int
    """Commit index: the number of committed requests up to and including this one."""
    id: Dot
    """Identifier of the request: the replica that issued it, and its event number there."""
    timestamp: int
    """Time of the call by the clock of that replica, in microseconds since 1970."""
    operation: str
    arguments: tuple[Any, ...]
    strong: bool
    changed: bool | None
    """True if the response differed from the last tentative one. Only the replica that issued the
    request can determine this, until it restarts. None elsewhere."""
    value: Any
    """Final return value of the operation."""
    error: str | None
    """Error that the operation raised, or None."""
    writes: tuple[tuple[Key, Any], ...]
    """Written registers, with their values after the request."""
    deleted: tuple[Key, ...]
    """Registers that the request deleted."""
    before: tuple[tuple[Key, Any], ...] | None = None
    """Values before the request, for written and deleted registers that had one. None if the
    cluster does not keep them."""
    client: str = ""
    """Identifier of the client, or empty if the call was not deduplicated."""
    number: int = 0
    """Number of the call among those of the client."""
    commit_timestamp: int = 0
    """Time at which the replica that serves the change found it final, by the clock of that
    replica, in microseconds since 1970. Each replica has its own. It is later than the commit if
    the replica was down or disconnected meanwhile. 0 if it is unknown."""

    def __post_init__(self) -> None:
        for name in ("arguments", "value", "writes", "deleted", "before"):
            value = getattr(self, name)
            frozen = freeze(value)
            if frozen is not value:
                msgspec.structs.force_setattr(self, name, frozen)

    @property
    def replica(self) -> int:
        """Replica that issued the request."""
        return self.id.replica


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[Change]).decode


def decode_changes(data: bytes) -> list[Change]:
    """Return the changes of an encoded list. Raise `MalformedMessage`."""
    try:
        return _decode(data)
    except DECODE_ERRORS as error:
        raise MalformedMessage(str(error)) from error


def encode_changes(changes: Sequence[Change]) -> bytes:
    return _encode(changes)


def change_to_json(change: Change) -> dict[str, Any]:
    """Return a change as JSON values."""
    return {
        "index": change.index,
        "call": f"{change.id.replica}.{change.id.event}",
        "timestamp": change.timestamp,
        "operation": change.operation,
        "arguments": to_json(change.arguments),
        "strong": change.strong,
        "changed": change.changed,
        "value": to_json(change.value),
        "error": change.error,
        "writes": [{"key": to_json(key), "value": to_json(value)} for key, value in change.writes],
        "deleted": [to_json(key) for key in change.deleted],
        "before": None
        if change.before is None
        else [{"key": to_json(key), "value": to_json(value)} for key, value in change.before],
        "client": change.client,
        "number": change.number,
        "commit_timestamp": change.commit_timestamp,
    }


class KeyFilter:
    """Filter for the changes of registers whose keys begin with a prefix."""

    def __init__(self, prefix: str | tuple[str | int, ...]) -> None:
        self.prefix = prefix
        self.matches: Callable[[Key], bool] = (
            self._matches_tuple if isinstance(prefix, tuple) else self._matches_text
        )

    def select(self, change: Change) -> Change | None:
        """Return the change with the matching registers only, or None if there are none."""
        writes = tuple([item for item in change.writes if self.matches(item[0])])
        deleted = tuple([key for key in change.deleted if self.matches(key)])
        if not writes and not deleted:
            return None
        before = change.before
        if before is not None:
            before = tuple([item for item in before if self.matches(item[0])])
        return msgspec.structs.replace(change, writes=writes, deleted=deleted, before=before)

    def _matches_text(self, key: Key) -> bool:
        assert isinstance(self.prefix, str)
        return type(key) is str and key.startswith(self.prefix)

    def _matches_tuple(self, key: Key) -> bool:
        return type(key) is tuple and key[: len(self.prefix)] == self.prefix


def parse_start(text: str) -> int | None:
    """Return the start that a text denotes, or None if it is not `earliest`, `latest` or an index
    of at least 1."""
    if text in (_EARLIEST_TEXT, _LATEST_TEXT):
        return EARLIEST if text == _EARLIEST_TEXT else LATEST
    is_index = text.isascii() and text.isdecimal() and 0 < len(text) <= 18 and int(text) > 0
    return int(text) if is_index else None
