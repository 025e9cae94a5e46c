"""The trace hash: a fingerprint of everything that any replica was told, in order.

Replicas are deterministic, so two runs with the same inputs are the same run. The hash covers each
input's true time, the local clock that came with it, the replica, the kind, the encoded content
and, for a message, its sender.
"""

from hashlib import blake2b
from struct import Struct

RECOVER, INVOKE, RECEIVE, TICK, COMPLETED, CRASH = range(6)
"""The kinds of inputs. A crash is one as well: it is what a replica never learns."""

_HEADER = Struct("<qqhhBI")
_PENDING_MAX = 1024
"""Pieces that are hashed at once: one by one costs more."""


class Trace:
    __slots__ = ("_hash", "_pending", "inputs")

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._pending: list[bytes] = []
        self.inputs = 0

    def add(
        self,
        at_us: int,
        local_us: int,
        replica: int,
        kind: int,
        content: bytes = b"",
        sender: int = -1,
    ) -> None:
        self.inputs += 1
        pending = self._pending
        pending.append(_HEADER.pack(at_us, local_us, replica, sender, kind, len(content)))
        pending.append(content)
        if len(pending) >= _PENDING_MAX:
            self._flush()

    def hexdigest(self) -> str:
        self._flush()
        return self._hash.hexdigest()

    def _flush(self) -> None:
        self._hash.update(b"".join(self._pending))
        self._pending.clear()
