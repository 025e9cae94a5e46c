"""A call that is asked for again is not executed again.

A client that lost its replica cannot know whether its call was done, so it asks another replica
for the same. Therefore what came of a call is part of the replicated state: a register for each
call, written by the very request that carries it out. Whoever executes a call whose register is
there answers with what is in there; unless it was another operation, for that is a mistake.

What is kept is bounded: so many calls of a client, for each takes the register of an old one;
answers up to a size; and calls that are not too old (`FORGET`).
"""

from collections.abc import Callable
from itertools import islice
from typing import Any, Final, TypeAlias
from zlib import crc32

import msgspec

from creekdb.execution.keys import CLIENTS, OURS, place, prefix_range
from creekdb.execution.result import Execution
from creekdb.execution.transaction import ABSENT, View
from creekdb.protocol.membership.configuration import MEMBERS
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.protocol.values import Key

INTERNAL: Final = "creek."
"""Operations whose names begin so are not for clients."""
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

_SHORT: Final = frozenset((type(None), bool, int, float))

_HEAD_BYTES_MAX: Final = 5
"""Before bytes, where they are encoded."""

_encode: Final = msgspec.msgpack.Encoder().encode

RunAs: TypeAlias = Callable[[Request, str, tuple[Any, ...], View], Execution]
"""Runs the operation of that name, with these arguments, in the place of the request's."""


def call_once(client: str, number: int, operation: Operation) -> Operation:
    return Operation(ONCE, (client, number, operation.name, operation.arguments))


def described(operation: Operation) -> str:
    """What a client called, for people."""
    operation = called(operation)
    text = f"{operation.name}({', '.join(map(repr, operation.arguments))})"
    return text if len(text) <= DESCRIBED_MAX else f"{text[:DESCRIBED_MAX]}…"


def called(operation: Operation) -> Operation:
    """What a client called, if it was a client."""
    return Operation(*operation.arguments[2:]) if is_once(operation) else operation


def forget_calls(before_us: int, client: str = "", number: int = 0) -> Operation:
    """Forget calls from before, some at a time: from this register of this client on. Answers how
    many were forgotten, and where to go on, if anywhere."""
    return Operation(FORGET, (before_us, client, number))


def is_once(operation: Operation) -> bool:
    """What is none of ours is an operation that does not exist, also with one of our names."""
    if operation.name != ONCE or len(operation.arguments) != 4:
        return False
    client, number, name, arguments = operation.arguments
    is_named = type(client) is str and type(name) is str
    return is_named and type(number) is int and type(arguments) is tuple


def is_forget(operation: Operation) -> bool:
    arguments = operation.arguments
    return operation.name == FORGET and tuple(map(type, arguments)) == (int, str, int)


def is_ended(operation: Operation) -> bool:
    arguments = operation.arguments
    return operation.name == ENDED and tuple(map(type, arguments)) == (str, int)


def run_asked(run_as: RunAs, request: Request, view: View) -> Execution:
    """What a client called, and what else there is for a replica to carry out."""
    operation = request.operation
    if is_once(operation):
        return _run_once(run_as, request, view)
    if is_forget(operation):
        return _run_forget(request, view)
    if is_ended(operation):
        return _run_ended(request, view)
    return _run_called(run_as, request, operation.name, operation.arguments, view)


def _run_called(
    run_as: RunAs, request: Request, name: str, arguments: tuple[Any, ...], view: View
) -> Execution:
    """What a client called; it leaves alone what is not its own."""
    execution = run_as(request, name, arguments, view)
    if name != MEMBERS:
        for written in (execution.writes, execution.adds):
            for key in written:
                if type(key) is tuple and key and key[0] in OURS:
                    what = f"BadValue: register {key!r} belongs to Creek: choose another name"
                    return Execution(Outcome(None, what), reads=execution.reads)
    return execution


def _run_once(run_as: RunAs, request: Request, view: View) -> Execution:
    """Run it, unless it was."""
    client, number, name, arguments = request.operation.arguments
    key: Key = (CLIENTS, client, number % CALLS_KEPT)
    kept = view.read(key)
    if kept is not ABSENT and kept[0] == number:
        _, _, value, error, mark = kept
        if mark != _mark(name, arguments):
            value, error = None, f"NumberUsed: call {number} of {client} was another operation"
        return Execution(Outcome(value, error), reads=1)
    execution = _run_called(run_as, request, name, arguments, view)
    outcome, writes = execution.outcome, execution.writes
    # Of one that comes too late to be asked for again, nothing is kept.
    if kept is ABSENT or kept[0] < number:
        value, error = outcome.value, outcome.error
        if not _is_short(value):
            value, error = None, FORGOTTEN
        writes[key] = (number, request.timestamp, value, error, _mark(name, arguments))
    reads = execution.reads + 1
    return Execution(outcome, writes, reads, execution.scanned, execution.adds, view)


def _is_short(value: Any) -> bool:
    """Is it short enough to be kept?"""
    kind = type(value)
    if kind in _SHORT or (kind is bytes and len(value) <= ANSWER_KEPT_MAX - _HEAD_BYTES_MAX):
        return True
    return len(_encode(value)) <= ANSWER_KEPT_MAX


def _run_forget(request: Request, view: View) -> Execution:
    before_us, client, number = request.operation.arguments
    _, stop = prefix_range((CLIENTS,))
    keys = view.keys(place((CLIENTS, client, number)), stop, False)
    found = list(islice(keys, LOOKED_AT_ONCE + 1))
    rest: tuple[Any, ...] = ()
    if len(found) > LOOKED_AT_ONCE:
        last = found.pop()
        rest = last[1:] if isinstance(last, tuple) else ()
    old = [key for key in found if view.read(key)[1] < before_us]
    value = (len(old), *rest)
    return Execution(Outcome(value), dict.fromkeys(old, ABSENT), scanned=len(found))


def _run_ended(request: Request, view: View) -> Execution:
    client, number = request.operation.arguments
    kept = view.read((CLIENTS, client, number % CALLS_KEPT))
    if kept is ABSENT or kept[0] != number or kept[3] == FORGOTTEN:
        return Execution(Outcome(), reads=1)
    _, _, value, error, _ = kept
    return Execution(Outcome((value, error)), reads=1)


def _mark(name: str, arguments: tuple[Any, ...]) -> int:
    """Another operation has, as good as certainly, another one."""
    return crc32(_encode((name, arguments)))
