"""A data type whose operations can be called with a client's number as well.

What clients ask for is refused, if it cannot be carried out, before it is issued
(`creekdb.cluster.desk`). So what was issued elsewhere and is unknown here was known there: the
module of that replica is another one. What comes of it cannot be told here, and this replica stops.
"""

from creekdb.cluster.once import INTERNAL, called, described, run_asked
from creekdb.errors import MissingOperation
from creekdb.execution.datatype import DataType, StandIn
from creekdb.execution.result import Execution
from creekdb.execution.transaction import View
from creekdb.protocol.request import Request


class Once(StandIn):
    def __init__(self, datatype: DataType) -> None:
        super().__init__(datatype)
        self._run_as = datatype.run_as

    def run(self, request: Request, view: View) -> Execution:
        execution = run_asked(self._run_as, request, view)
        if execution.outcome.error is not None:
            self._refuse_unknown(request)
        return execution

    def _refuse_unknown(self, request: Request) -> None:
        operation = called(request.operation)
        if operation.name.startswith(INTERNAL):
            return
        if not self.can_run(operation.name, len(operation.arguments)):
            raise MissingOperation(
                f"{described(operation)}, which replica {request.id.replica} took from a client, "
                f"calls no operation that '{self.name}' has here. Start this replica again with "
                f"the module that replica {request.id.replica} had then: nothing is lost"
            )
