"""Trace hash: a fingerprint of every input of every replica, in order.

Replicas are deterministic, so two runs with equal inputs are equal. The hash covers the true time
of each input, its local clock reading, the replica, the kind, the encoded content and, for a
message, the sender.
"""

from hashlib import blake2b
from struct import Struct

import msgspec

from creekdb.protocol.request import Outcome

RECOVER, INVOKE, RECEIVE, TICK, COMPLETED, CRASH, WAKE = range(7)
"""Kinds of inputs. A crash is an input too, although the replica never observes it."""

_HEADER = Struct("<qqhhBI")
_PENDING_MAX = 1024
"""Number of byte strings that are hashed in one call, since single calls are slower."""
_ENCODED_MAX = 4096
"""Number of cached encodings of outcomes, shared by all replicas."""

_encode = msgspec.msgpack.Encoder().encode


class TraceHash:
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
        """Return the encoded outcome. It is cached, since replicas mostly share the object."""
        entry = self._encoded_outcomes.get(id(outcome))
        if entry is None:
            if len(self._encoded_outcomes) == _ENCODED_MAX:
                self._encoded_outcomes.clear()
            entry = self._encoded_outcomes[id(outcome)] = outcome, msgspec.Raw(_encode(outcome))
        return entry[1]

    def hexdigest(self) -> str:
        self._flush()
        return self._hash.hexdigest()

    def _flush(self) -> None:
        self._hash.update(b"".join(self._pending))
        self._pending.clear()
