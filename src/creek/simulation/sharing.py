"""Executing a request once for all replicas that see the same.

In a simulation, most replicas execute a request on equal values. An operation is a deterministic
function of what it reads; so where another replica's snapshot shows the values that an
earlier execution read, in the order in which it read them, its result is taken, and the operation
is not run again. What it took, in simulated time, is the same either way.

Why this is exact, also for what a snapshot remembers: up to the first value that differs, an
execution reads the same registers in the same order. So whatever was looked at in vain, when a
value differs and the operation has to be run after all, it reads too.

Most values are the same objects, since replicas share what executions wrote, and the initial data.
What goes through a range of registers is always run. Not for debugging: there, running again is the
point.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from creek.execution.datatype import DataType
from creek.execution.transaction import Execution, View
from creek.execution.versions import Snapshot
from creek.protocol.dots import Dot
from creek.protocol.request import Request
from creek.protocol.values import Key, same

REMEMBERED_MAX: Final = 16_384
"""Requests; by then every replica has mostly executed them."""
VARIANTS_MAX: Final = 4
"""Executions of one request on different values."""

Told: TypeAlias = tuple[int, Key, bool]
"""After how many reads it was asked whether one can add to a register, and what it was told."""


class Known(NamedTuple):
    """What an execution of a request read and was told, and what came out."""

    request: Request
    reads: tuple[tuple[Key, Any], ...]
    told: tuple[Told, ...]
    execution: Execution


class SharedExecutions(DataType):
    """A data type, for all replicas of one simulation."""

    def __init__(self, datatype: DataType) -> None:
        super().__init__(
            datatype.name,
            steps=datatype.steps,
            count_lines=datatype.count_lines,
            base=datatype.base,
        )
        self._declared = datatype._declared
        self._known: dict[Dot, list[Known]] = {}
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
            if same_request and _sees_the_same(view, known):
                self.shared += 1
                return known.execution
        witness = _Witness(view)
        execution = super().run(request, witness)
        # Where something was read in vain before, it is not known what came after which read.
        is_clear = not witness.told or not witness.read_before
        if is_clear and not view.ranges and len(variants) < VARIANTS_MAX:
            reads = tuple((key, value) for key, (_, value) in view.reads.items())
            variants.append(Known(request, reads, tuple(witness.told), execution))
        return execution


def _sees_the_same(view: Snapshot, known: Known) -> bool:
    read, done = view.read, 0
    for reads, key, answer in known.told:
        if not _reads_the_same(read, known.reads[done:reads]):
            return False
        if view.addable(key) is not answer:
            return False
        done = reads
    return _reads_the_same(read, known.reads[done:])


def _reads_the_same(read: Callable[[Key], Any], reads: tuple[tuple[Key, Any], ...]) -> bool:
    for key, value in reads:
        seen = read(key)
        if seen is not value and not same(seen, value):
            return False
    return True


class _Witness:
    """A snapshot that also remembers what it said about additions. Reads go straight through."""

    __slots__ = ("_view", "keys", "read", "read_before", "told")

    def __init__(self, view: Snapshot) -> None:
        self._view = view
        self.read = view.read
        self.keys = view.keys
        self.read_before = len(view.reads)
        self.told: list[Told] = []

    def addable(self, key: Key) -> bool:
        answer = self._view.addable(key)
        self.told.append((len(self._view.reads), key, answer))
        return answer
