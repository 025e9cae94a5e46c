"""Executing a request once for all replicas that see the same.

In a simulation, most replicas execute a request on equal values. An operation is a deterministic
function of what it reads; so where another replica's snapshot shows every value that an earlier
execution read, or the same items where it looked at no others, its result is taken, and the
operation is not run again. What it took, in simulated time, is the same either way, and so is what
the snapshot remembers of it: what was compared in vain leaves no trace.

Most values are the same objects, since replicas share what executions wrote, and the initial data.
What goes through a range of registers is always run. Not for debugging: there, running again is the
point.
"""

from typing import Any, Final

from creekdb.execution.datatype import DataType, StandIn
from creekdb.execution.mvcc.snapshot import Seen, Snapshot, Told
from creekdb.execution.result import Execution
from creekdb.execution.transaction import View
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Request
from creekdb.protocol.values import Key, same

REMEMBERED_MAX: Final = 16_384
"""Requests; by then every replica has mostly executed them."""
VARIANTS_MAX: Final = 4
"""Executions of one request on different values."""

_NOTHING: Final = object()


class Known:
    """What an execution of a request saw, and what came out."""

    __slots__ = ("execution", "request", "seen")

    def __init__(self, request: Request, seen: Seen, execution: Execution) -> None:
        self.request = request
        self.seen = seen
        self.execution = execution


class SharedExecutions(StandIn):
    """A data type, for all replicas of one simulation."""

    def __init__(self, datatype: DataType) -> None:
        super().__init__(datatype)
        self._known: dict[Dot, list[Known]] = {}
        self._last_changes: tuple[dict[Key, Any], dict[Key, Any]] = {}, {}
        """Of which registers it was asked last what differs from the base, and the answer."""
        self.shared = 0
        """Executions that were not run."""

    def run(self, request: Request, view: View) -> Execution:
        if not isinstance(view, Snapshot):
            return super().run(request, view)
        variants = self._known.get(request.id)
        if variants is None:
            variants = self._known[request.id] = []
            if len(self._known) > REMEMBERED_MAX:
                del self._known[next(iter(self._known))]
        for known in variants:
            # A request that was lost in a crash may share its identifier with a later one.
            same_request = known.request is request or known.request == request
            if same_request and view.repeat(known.seen):
                self.shared += 1
                return known.execution
        witness = _Witness(view)
        execution = super().run(request, witness)
        if not view.ranges and len(variants) < VARIANTS_MAX:
            variants.append(Known(request, Seen(view, witness.told), execution))
        return execution

    def changes(self, registers: dict[Key, Any]) -> dict[Key, Any]:
        """Of replicas that end with the same values in the same registers, once."""
        last, changed = self._last_changes
        if not _are_the_same(last, registers):
            changed = super().changes(registers)
            self._last_changes = registers, changed
        return changed


def _are_the_same(some: dict[Key, Any], others: dict[Key, Any]) -> bool:
    if len(some) != len(others):
        return False
    for key, value in some.items():
        other = others.get(key, _NOTHING)
        if other is not value and not same(other, value):
            return False
    return True


class _Witness:
    """A snapshot that also remembers what it said about additions. Reads go straight through."""

    __slots__ = ("_view", "keys", "pick", "read", "told")

    def __init__(self, view: Snapshot) -> None:
        self._view = view
        self.read = view.read
        self.pick = view.pick
        self.keys = view.keys
        self.told: list[Told] = []

    def addable(self, key: Key) -> bool:
        answer = self._view.addable(key)
        self.told.append((key, answer))
        return answer
