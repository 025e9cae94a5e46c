"""A data type whose operations can be called with a client's number as well.

What clients ask for is refused, if it cannot be carried out, before it is issued
(`creekdb.server.calls.dispatcher`). So what was issued elsewhere and is unknown here was known
there: the module of that replica is another one. What comes of it cannot be told here, and this
replica stops.

Which operations each replica can carry out.

All replicas have the same, but while they are started one after the other with a module that has
more. What is called meanwhile must be carried out by all, so it must be known to all: who is asked
for what another one has not heard of refuses. That other one may be away, and have said nothing:
when such a call reaches it all the same, it stops (`creekdb.server.calls.capabilities`), for it
cannot know what comes of it.
"""

from collections.abc import Callable, Iterable
from typing import Final

from creekdb.errors import MissingOperation
from creekdb.execution.datatype import Arity, DataType, DataTypeWrapper
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import View
from creekdb.protocol.request import Request
from creekdb.wire.deduplication import INTERNAL_PREFIX, describe_call, run_request, unwrap_call
from creekdb.wire.messages import HELLO_FRAME_BYTES_MAX, OperationArity


class DeduplicatingDataType(DataTypeWrapper):
    def __init__(self, datatype: DataType) -> None:
        super().__init__(datatype)
        self._run_as = datatype.run_as

    def run(self, request: Request, view: View) -> ExecutionResult:
        execution = run_request(self._run_as, request, view)
        if execution.outcome.error is not None:
            self._raise_if_unknown(request)
        return execution

    def _raise_if_unknown(self, request: Request) -> None:
        operation = unwrap_call(request.operation)
        if operation.name.startswith(INTERNAL_PREFIX):
            return
        if not self.can_run(operation.name, len(operation.arguments)):
            raise MissingOperation(
                f"{describe_call(operation)}, which replica {request.id.replica} took from a "
                "client, "
                f"calls no operation that '{self.name}' has here. Start this replica again with "
                f"the module that replica {request.id.replica} had then: nothing is lost"
            )


ADVERTISED_BYTES_MAX: Final = HELLO_FRAME_BYTES_MAX // 2
"""Of a hello. Who has more operations than that tells of none."""


class Capabilities:
    def __init__(self, datatype: DataType) -> None:
        self._own = {name: datatype.arity(name) for name in datatype.operations}
        self._missing_by_peer: dict[int, dict[str, Arity | None]] = {}
        """Of those that cannot do all that we can: what they do not, or only with other numbers of
        arguments. Mostly there are none."""

    def advertisement(self) -> tuple[OperationArity, ...]:
        """To the others."""
        if sum(len(name.encode()) + 16 for name in self._own) > ADVERTISED_BYTES_MAX:
            return ()
        return tuple([(name, *taken) for name, taken in self._own.items()])

    def record_peer(self, replica: int, told: Iterable[OperationArity]) -> None:
        """What another one has said. One that says nothing is not doubted."""
        theirs = {name: Arity(least, most) for name, least, most in told}
        others = {
            name: theirs.get(name)
            for name, taken in self._own.items()
            if theirs and not (name in theirs and theirs[name].covers(taken))
        }
        self._missing_by_peer.pop(replica, None)
        if others:
            self._missing_by_peer[replica] = others

    def find_incapable(
        self, name: str, count: int, connected: Callable[[], Iterable[int]]
    ) -> int | None:
        """Carry out that operation with so many arguments: one of those that are connected."""
        if not self._missing_by_peer:
            return None
        for replica in connected():
            others = self._missing_by_peer.get(replica, {})
            if name in others:
                taken = others[name]
                if taken is None or not taken.accepts(count):
                    return replica
        return None
