"""A data type whose operations can be called with a client's number as well."""

from creek.cluster.once import (
    is_ended,
    is_forget,
    is_once,
    run_called,
    run_ended,
    run_forget,
    run_once,
)
from creek.execution.datatype import DataType, StandIn
from creek.execution.execution import Execution
from creek.execution.transaction import View
from creek.protocol.request import Request


class Once(StandIn):
    def __init__(self, datatype: DataType) -> None:
        super().__init__(datatype)
        self._run = datatype.run

    def run(self, request: Request, view: View) -> Execution:
        operation = request.operation
        if is_once(operation):
            return run_once(self._run, request, view)
        if is_forget(operation):
            return run_forget(request, view)
        if is_ended(operation):
            return run_ended(request, view)
        return run_called(self._run, request, view)
