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

from creekdb.execution.keys import CALLS_PREFIX, RESERVED_PREFIXES, collation_key, prefix_range
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import ABSENT, View
from creekdb.protocol.membership.configuration import MEMBERSHIP_OPERATION
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.protocol.values import Key

INTERNAL_PREFIX: Final = "creek."
"""Operations whose names begin so are not for clients."""
DEDUPLICATED_CALL: Final = "creek.once"
EXPIRE_CALLS: Final = "creek.forget"
QUERY_OUTCOME: Final = "creek.ended"
"""What a client calls, strongly, with its name and the number of a call, where the call is known:
it answers how that ended, as (value, error), or nothing if that is not kept."""

CALLS_PER_CLIENT_MAX: Final = 1024
"""Of each client: of those that it may ask for again, the numbers differ by less."""
KEPT_RESPONSE_BYTES_MAX: Final = 4096
"""Bytes; a longer answer is given once."""

RESPONSE_NOT_KEPT: Final = "Forgotten: it was done, and its answer was too long"
EXPIRY_BATCH_MAX: Final = 512
"""Calls, when old ones are forgotten: more would hold up other operations."""
DESCRIPTION_CHARS_MAX: Final = 200

_SMALL_TYPES: Final = frozenset((type(None), bool, int, float))

_BYTES_HEADER_MAX: Final = 5
"""Before bytes, where they are encoded."""

_encode: Final = msgspec.msgpack.Encoder().encode

RunOperation: TypeAlias = Callable[[Request, str, tuple[Any, ...], View], ExecutionResult]
"""Runs the operation of that name, with these arguments, in the place of the request's."""


def wrap_call(client: str, number: int, operation: Operation) -> Operation:
    return Operation(DEDUPLICATED_CALL, (client, number, operation.name, operation.arguments))


def describe_call(operation: Operation) -> str:
    """What a client called, for people."""
    operation = unwrap_call(operation)
    text = f"{operation.name}({', '.join(map(repr, operation.arguments))})"
    return text if len(text) <= DESCRIPTION_CHARS_MAX else f"{text[:DESCRIPTION_CHARS_MAX]}…"


def unwrap_call(operation: Operation) -> Operation:
    """What a client called, if it was a client."""
    return Operation(*operation.arguments[2:]) if is_deduplicated(operation) else operation


def expire_calls(before_us: int, client: str = "", number: int = 0) -> Operation:
    """Forget calls from before, some at a time: from this register of this client on. Answers how
    many were forgotten, and where to go on, if anywhere."""
    return Operation(EXPIRE_CALLS, (before_us, client, number))


def is_deduplicated(operation: Operation) -> bool:
    """What is none of ours is an operation that does not exist, also with one of our names."""
    if operation.name != DEDUPLICATED_CALL or len(operation.arguments) != 4:
        return False
    client, number, name, arguments = operation.arguments
    is_named = type(client) is str and type(name) is str
    return is_named and type(number) is int and type(arguments) is tuple


def is_expiry(operation: Operation) -> bool:
    arguments = operation.arguments
    return operation.name == EXPIRE_CALLS and tuple(map(type, arguments)) == (int, str, int)


def is_outcome_query(operation: Operation) -> bool:
    arguments = operation.arguments
    return operation.name == QUERY_OUTCOME and tuple(map(type, arguments)) == (str, int)


def run_request(run_as: RunOperation, request: Request, view: View) -> ExecutionResult:
    """What a client called, and what else there is for a replica to carry out."""
    operation = request.operation
    if is_deduplicated(operation):
        return _run_deduplicated(run_as, request, view)
    if is_expiry(operation):
        return _run_expiry(request, view)
    if is_outcome_query(operation):
        return _run_outcome_query(request, view)
    return _run_client_operation(run_as, request, operation.name, operation.arguments, view)


def _run_client_operation(
    run_as: RunOperation, request: Request, name: str, arguments: tuple[Any, ...], view: View
) -> ExecutionResult:
    """What a client called; it leaves alone what is not its own."""
    execution = run_as(request, name, arguments, view)
    if name != MEMBERSHIP_OPERATION:
        for written in (execution.writes, execution.blind_adds):
            for key in written:
                if type(key) is tuple and key and key[0] in RESERVED_PREFIXES:
                    what = f"BadValue: register {key!r} belongs to Creek: choose another name"
                    return ExecutionResult(Outcome(None, what), read_count=execution.read_count)
    return execution


def _run_deduplicated(run_as: RunOperation, request: Request, view: View) -> ExecutionResult:
    """Run it, unless it was."""
    client, number, name, arguments = request.operation.arguments
    key: Key = (CALLS_PREFIX, client, number % CALLS_PER_CLIENT_MAX)
    kept = view.read(key)
    if kept is not ABSENT and kept[0] == number:
        _, _, value, error, mark = kept
        if mark != _fingerprint(name, arguments):
            value, error = None, f"NumberUsed: call {number} of {client} was another operation"
        return ExecutionResult(Outcome(value, error), read_count=1)
    execution = _run_client_operation(run_as, request, name, arguments, view)
    outcome, writes = execution.outcome, execution.writes
    # Of one that comes too late to be asked for again, nothing is kept.
    if kept is ABSENT or kept[0] < number:
        value, error = outcome.value, outcome.error
        if not _is_small(value):
            value, error = None, RESPONSE_NOT_KEPT
        writes[key] = (number, request.timestamp, value, error, _fingerprint(name, arguments))
    reads = execution.read_count + 1
    return ExecutionResult(outcome, writes, reads, execution.scan_count, execution.blind_adds, view)


def _is_small(value: Any) -> bool:
    """Is it short enough to be kept?"""
    kind = type(value)
    if kind in _SMALL_TYPES or (
        kind is bytes and len(value) <= KEPT_RESPONSE_BYTES_MAX - _BYTES_HEADER_MAX
    ):
        return True
    return len(_encode(value)) <= KEPT_RESPONSE_BYTES_MAX


def _run_expiry(request: Request, view: View) -> ExecutionResult:
    before_us, client, number = request.operation.arguments
    _, stop = prefix_range((CALLS_PREFIX,))
    keys = view.keys(collation_key((CALLS_PREFIX, client, number)), stop, False)
    found = list(islice(keys, EXPIRY_BATCH_MAX + 1))
    rest: tuple[Any, ...] = ()
    if len(found) > EXPIRY_BATCH_MAX:
        last = found.pop()
        rest = last[1:] if isinstance(last, tuple) else ()
    old = [key for key in found if view.read(key)[1] < before_us]
    value = (len(old), *rest)
    return ExecutionResult(Outcome(value), dict.fromkeys(old, ABSENT), scan_count=len(found))


def _run_outcome_query(request: Request, view: View) -> ExecutionResult:
    client, number = request.operation.arguments
    kept = view.read((CALLS_PREFIX, client, number % CALLS_PER_CLIENT_MAX))
    if kept is ABSENT or kept[0] != number or kept[3] == RESPONSE_NOT_KEPT:
        return ExecutionResult(Outcome(), read_count=1)
    _, _, value, error, _ = kept
    return ExecutionResult(Outcome((value, error)), read_count=1)


def _fingerprint(name: str, arguments: tuple[Any, ...]) -> int:
    """Another operation has, as good as certainly, another one."""
    return crc32(_encode((name, arguments)))
