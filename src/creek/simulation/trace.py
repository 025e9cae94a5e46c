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


class Trace:
    __slots__ = ("_hash", "inputs")

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
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
        header = _HEADER.pack(at_us, local_us, replica, sender, kind, len(content))
        self._hash.update(header + content)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()
