"""A data type whose operations can be called with a client's number as well."""

from creek.cluster.once import run_asked
from creek.execution.datatype import DataType, StandIn
from creek.execution.execution import Execution
from creek.execution.transaction import View
from creek.protocol.request import Request


class Once(StandIn):
    def __init__(self, datatype: DataType) -> None:
        super().__init__(datatype)
        self._run_as = datatype.run_as

    def run(self, request: Request, view: View) -> Execution:
        return run_asked(self._run_as, request, view)
