"""The trace hash: a fingerprint of everything that any replica was told, in order.

Replicas are deterministic, so two runs with the same inputs are the same run. The hash covers each
input's true time, the local clock that came with it, the replica, the kind, the encoded content
and, for a message, its sender.
"""

from hashlib import blake2b
from struct import Struct

import msgspec

from creekdb.protocol.request import Outcome

RECOVER, INVOKE, RECEIVE, TICK, COMPLETED, CRASH = range(6)
"""The kinds of inputs. A crash is one as well: it is what a replica never learns."""

_HEADER = Struct("<qqhhBI")
_PENDING_MAX = 1024
"""Pieces that are hashed at once: one by one costs more."""
_ENCODED_MAX = 4096
"""Outcomes that are encoded once for all replicas that came to them."""

_encode = msgspec.msgpack.Encoder().encode


class TraceHash:
    __slots__ = ("_encoded_outcomes", "_hash", "_pending", "input_count")

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._pending: list[bytes] = []
        self._encoded_outcomes: dict[int, tuple[Outcome, msgspec.Raw]] = {}
        self.input_count = 0

    def add(
        self,
        at_us: int,
        local_us: int,
        replica: int,
        kind: int,
        content: bytes = b"",
        sender: int = -1,
    ) -> None:
        self.input_count += 1
        pending = self._pending
        pending.append(_HEADER.pack(at_us, local_us, replica, sender, kind, len(content)))
        pending.append(content)
        if len(pending) >= _PENDING_MAX:
            self._flush()

    def encode_outcome(self, outcome: Outcome) -> msgspec.Raw:
        """As a part of something to be encoded. Replicas mostly come to one and the same object."""
        found = self._encoded_outcomes.get(id(outcome))
        if found is None:
            if len(self._encoded_outcomes) == _ENCODED_MAX:
                self._encoded_outcomes.clear()
            found = self._encoded_outcomes[id(outcome)] = outcome, msgspec.Raw(_encode(outcome))
        return found[1]

    def hexdigest(self) -> str:
        self._flush()
        return self._hash.hexdigest()

    def _flush(self) -> None:
        self._hash.update(b"".join(self._pending))
        self._pending.clear()
