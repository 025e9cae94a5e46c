"""A call that is asked for again is not executed again.

A client that lost its replica cannot know whether its call was done, so it asks another replica
for the same. Therefore what a client asked for last, and what came out, is part of the replicated
state: a register for each client, written by the very request that carries the call out. Whoever
executes a call with a number that is in there answers with what is in there.

What is kept is bounded: so many calls of a client, answers up to a size, and clients that were
heard of not too long ago (`FORGET`).
"""

from typing import Any, Final

import msgspec

from creek.execution.datatype import DataType
from creek.execution.keys import prefix_range
from creek.execution.transaction import ABSENT, Execution, View
from creek.protocol.request import Operation, Outcome, Request
from creek.protocol.values import Key

ONCE: Final = "creek.once"
FORGET: Final = "creek.forget"
CLIENTS: Final = "creek.client"

CALLS_KEPT: Final = 64
"""Of each client: so many may be under way at once."""
ANSWER_KEPT_MAX: Final = 4096
"""Bytes; a longer answer is given once."""

_encode = msgspec.msgpack.Encoder().encode


def call_once(client: str, number: int, operation: Operation) -> Operation:
    return Operation(ONCE, (client, number, operation.name, operation.arguments))


def forget_clients(before_us: int) -> Operation:
    """Forget the clients that have not called since."""
    return Operation(FORGET, (before_us,))


def called(operation: Operation) -> Operation:
    """What a client asked for, whether or not it was wrapped."""
    if operation.name != ONCE:
        return operation
    _, _, name, arguments = operation.arguments
    return Operation(name, arguments)


class Once(DataType):
    """A data type whose operations can be called with a client's number as well."""

    def __init__(self, datatype: DataType) -> None:
        super().__init__(
            datatype.name,
            steps=datatype.steps,
            count_lines=datatype.count_lines,
            base=datatype.base,
        )
        self._declared = datatype._declared
        self._called = datatype

    def run(self, request: Request, view: View) -> Execution:
        operation = request.operation
        if operation.name == ONCE:
            client, number, name, arguments = operation.arguments
            return self._run_once(request, view, client, number, Operation(name, arguments))
        if operation.name == FORGET:
            (before_us,) = operation.arguments
            return self._forget(view, before_us)
        return self._called.run(request, view)

    def _run_once(
        self, request: Request, view: View, client: str, number: int, operation: Operation
    ) -> Execution:
        key: Key = (CLIENTS, client)
        memory = view.read(key)
        kept: tuple[tuple[int, Any, str | None], ...] = () if memory is ABSENT else memory[1]
        for known, value, error in kept:
            if known == number:
                return Execution(Outcome(value, error), reads=1)
        if len(kept) == CALLS_KEPT and number < kept[0][0]:
            error = f"Forgotten: call {number} is older than the {CALLS_KEPT} that are remembered"
            return Execution(Outcome(error=error), reads=1)
        inner = msgspec.structs.replace(request, operation=operation)
        execution = self._called.run(inner, view)
        outcome = execution.outcome
        entry = (number, outcome.value, outcome.error)
        if len(_encode(outcome.value)) > ANSWER_KEPT_MAX:
            entry = (number, None, "Forgotten: it was done, and the answer was too long to be kept")
        entries = sorted((*kept, entry), key=_number)[-CALLS_KEPT:]
        writes = {**execution.writes, key: (request.timestamp, tuple(entries))}
        return msgspec.structs.replace(execution, writes=writes, reads=execution.reads + 1)

    def _forget(self, view: View, before_us: int) -> Execution:
        start, stop = prefix_range((CLIENTS,))
        found = [(key, view.read(key)) for key in view.keys(start, stop, False)]
        old = [key for key, value in found if value is not ABSENT and value[0] < before_us]
        return Execution(Outcome(len(old)), dict.fromkeys(old, ABSENT), scanned=len(found))


def _number(entry: tuple[int, Any, str | None]) -> int:
    return entry[0]
