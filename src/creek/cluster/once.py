"""A call that is asked for again is not executed again.

A client that lost its replica cannot know whether its call was done, so it asks another replica
for the same. Therefore what came of a call is part of the replicated state: a register for each
call, written by the very request that carries it out. Whoever executes a call whose register is
there answers with what is in there.

What is kept is bounded: so many calls of a client, for each removes an old one; answers up to a
size; and clients that were heard of not too long ago (`FORGET`).
"""

from typing import Final

import msgspec

from creek.execution.datatype import DataType, StandIn
from creek.execution.execution import Execution
from creek.execution.keys import prefix_range
from creek.execution.transaction import ABSENT, View
from creek.protocol.request import Operation, Outcome, Request
from creek.protocol.values import Key

ONCE: Final = "creek.once"
FORGET: Final = "creek.forget"
CLIENTS: Final = "creek.client"

CALLS_KEPT: Final = 1024
"""Of each client: of those that it may ask for again, the numbers differ by less."""
ANSWER_KEPT_MAX: Final = 4096
"""Bytes; a longer answer is given once."""

DESCRIBED_MAX: Final = 200

_encode = msgspec.msgpack.Encoder().encode


def call_once(client: str, number: int, operation: Operation) -> Operation:
    return Operation(ONCE, (client, number, operation.name, operation.arguments))


def described(operation: Operation) -> str:
    """What a client called, for people."""
    operation = called(operation)
    text = f"{operation.name}({', '.join(map(repr, operation.arguments))})"
    return text if len(text) <= DESCRIBED_MAX else f"{text[:DESCRIBED_MAX]}…"


def called(operation: Operation) -> Operation:
    """What a client called, if it was a client."""
    if operation.name != ONCE or tuple(map(type, operation.arguments)) != (str, int, str, tuple):
        return operation
    return Operation(*operation.arguments[2:])


def forget_clients(before_us: int) -> Operation:
    """Forget the clients that have not called since."""
    return Operation(FORGET, (before_us,))


class Once(StandIn):
    """A data type whose operations can be called with a client's number as well."""

    def __init__(self, datatype: DataType) -> None:
        super().__init__(datatype)
        self._called = datatype

    def run(self, request: Request, view: View) -> Execution:
        """What is none of ours is an operation that does not exist, also with one of our names."""
        name, arguments = request.operation.name, request.operation.arguments
        if name == ONCE and tuple(map(type, arguments)) == (str, int, str, tuple):
            client, number, called, rest = arguments
            return self._run_once(request, view, client, number, Operation(called, rest))
        if name == FORGET and tuple(map(type, arguments)) == (int,):
            return self._forget(view, arguments[0])
        return self._called.run(request, view)

    def _run_once(
        self, request: Request, view: View, client: str, number: int, operation: Operation
    ) -> Execution:
        key: Key = (CLIENTS, client, number)
        kept = view.read(key)
        if kept is not ABSENT:
            _, value, error = kept
            return Execution(Outcome(value, error), reads=1)
        inner = msgspec.structs.replace(request, operation=operation)
        execution = self._called.run(inner, view)
        outcome = execution.outcome
        kept = request.timestamp, outcome.value, outcome.error
        if len(_encode(outcome.value)) > ANSWER_KEPT_MAX:
            kept = request.timestamp, None, "Forgotten: it was done, and its answer was too long"
        writes = {**execution.writes, key: kept, (CLIENTS, client, number - CALLS_KEPT): ABSENT}
        return msgspec.structs.replace(execution, writes=writes, reads=execution.reads + 1)

    def _forget(self, view: View, before_us: int) -> Execution:
        start, stop = prefix_range((CLIENTS,))
        found = [(key, view.read(key)) for key in view.keys(start, stop, False)]
        old = [key for key, value in found if value is not ABSENT and value[0] < before_us]
        return Execution(Outcome(len(old)), dict.fromkeys(old, ABSENT), scanned=len(found))
