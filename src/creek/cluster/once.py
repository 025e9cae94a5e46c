"""A call that is asked for again is not executed again.

A client that lost its replica cannot know whether its call was done, so it asks another replica
for the same. Therefore what came of a call is part of the replicated state: a register for each
call, written by the very request that carries it out. Whoever executes a call whose register is
there answers with what is in there; unless it was another operation, for that is a mistake.

What is kept is bounded: so many calls of a client, for each removes an old one; answers up to a
size; and calls that are not too old (`FORGET`).
"""

from itertools import islice
from typing import Any, Final
from zlib import crc32

import msgspec

from creek.execution.datatype import DataType, StandIn
from creek.execution.execution import Execution
from creek.execution.keys import CLIENTS, OURS, place, prefix_range
from creek.execution.transaction import ABSENT, View
from creek.protocol.members import MEMBERS
from creek.protocol.request import Operation, Outcome, Request
from creek.protocol.values import Key

ONCE: Final = "creek.once"
FORGET: Final = "creek.forget"
ENDED: Final = "creek.ended"
"""What a client calls, strongly, with its name and the number of a call, where the call is known:
it answers how that ended, as (value, error), or nothing if that is not kept."""

CALLS_KEPT: Final = 1024
"""Of each client: of those that it may ask for again, the numbers differ by less."""
ANSWER_KEPT_MAX: Final = 4096
"""Bytes; a longer answer is given once."""

FORGOTTEN: Final = "Forgotten: it was done, and its answer was too long"
LOOKED_AT_ONCE: Final = 512
"""Calls, when old ones are forgotten: more would hold up other operations."""
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


def forget_calls(before_us: int, client: str = "", number: int = 0) -> Operation:
    """Forget calls from before, some at a time: from this one of this client on. Answers how many
    were forgotten, and where to go on, if anywhere."""
    return Operation(FORGET, (before_us, client, number))


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
        if name == FORGET and tuple(map(type, arguments)) == (int, str, int):
            return self._forget(view, *arguments)
        if name == ENDED and tuple(map(type, arguments)) == (str, int):
            return _ended(view, *arguments)
        return self._run(request, view)

    def _run(self, request: Request, view: View) -> Execution:
        """What a client called; it leaves alone what is not its own."""
        execution = self._called.run(request, view)
        if request.operation.name != MEMBERS:
            for written in (execution.writes, execution.adds):
                for key in written:
                    if type(key) is tuple and key and key[0] in OURS:
                        what = f"BadValue: register {key!r} belongs to Creek: choose another name"
                        return Execution(Outcome(None, what), reads=execution.reads)
        return execution

    def _run_once(
        self, request: Request, view: View, client: str, number: int, operation: Operation
    ) -> Execution:
        key: Key = (CLIENTS, client, number)
        kept = view.read(key)
        if kept is not ABSENT:
            _, value, error, mark = kept
            if mark != _mark(operation):
                value, error = None, f"NumberUsed: call {number} of {client} was another operation"
            return Execution(Outcome(value, error), reads=1)
        inner = msgspec.structs.replace(request, operation=operation)
        execution = self._run(inner, view)
        outcome = execution.outcome
        value, error = outcome.value, outcome.error
        if len(_encode(value)) > ANSWER_KEPT_MAX:
            value, error = None, FORGOTTEN
        kept = request.timestamp, value, error, _mark(operation)
        writes = {**execution.writes, key: kept, (CLIENTS, client, number - CALLS_KEPT): ABSENT}
        return msgspec.structs.replace(execution, writes=writes, reads=execution.reads + 1)

    def _forget(self, view: View, before_us: int, client: str, number: int) -> Execution:
        _, stop = prefix_range((CLIENTS,))
        keys = view.keys(place((CLIENTS, client, number)), stop, False)
        found = list(islice(keys, LOOKED_AT_ONCE + 1))
        rest: tuple[Any, ...] = ()
        if len(found) > LOOKED_AT_ONCE:
            last = found.pop()
            rest = last[1:] if isinstance(last, tuple) else ()
        old = [key for key in found if view.read(key)[0] < before_us]
        value = (len(old), *rest)
        return Execution(Outcome(value), dict.fromkeys(old, ABSENT), scanned=len(found))


def _ended(view: View, client: str, number: int) -> Execution:
    kept = view.read((CLIENTS, client, number))
    if kept is ABSENT or kept[2] == FORGOTTEN:
        return Execution(Outcome(), reads=1)
    _, value, error, _ = kept
    return Execution(Outcome((value, error)), reads=1)


def _mark(operation: Operation) -> int:
    """Another operation has, as good as certainly, another one."""
    return crc32(_encode((operation.name, operation.arguments)))
