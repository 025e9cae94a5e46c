"""Deduplication: a retried call is executed once.

A client that loses its replica cannot tell whether its call took effect, so it retries the call at
another replica. Therefore the outcome of a call is part of the replicated state. Each call has a
register, which the request that executes the call writes. A request whose call has a register
returns the stored outcome. If the stored call was another operation, it returns an error.

The retained outcomes are bounded. A client has `CALLS_PER_CLIENT_MAX` registers, and each new call
replaces an old one. Long return values are not stored. Old calls expire (`EXPIRE_CALLS`).
"""

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias
from zlib import crc32

import msgspec

from creekdb.execution.footprint import Footprint
from creekdb.execution.keys import (
    CALLS_PREFIX,
    IDENTITY_PREFIX,
    RESERVED_PREFIXES,
    collation_key,
    prefix_range,
)
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import ABSENT, View
from creekdb.protocol.membership.configuration import MEMBERSHIP_OPERATION
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.protocol.values import Key
from creekdb.wire.batches import BATCH, is_batch, run_batch

INTERNAL_PREFIX: Final = "creek."
"""Prefix of operations that clients cannot call."""
DEDUPLICATED_CALL: Final = "creek.once"
EXPIRE_CALLS: Final = "creek.forget"
IDENTIFY_CLUSTER: Final = "creek.identify"
"""Operation that gives the cluster an identity, unless it has one. Its result is the identity."""
IDENTITY_KEY: Final[Key] = (IDENTITY_PREFIX,)
QUERY_OUTCOME: Final = "creek.ended"
"""Operation that returns the outcome of a call as (value, error), or None if it is not stored.
A client calls it strongly with its identifier and the number of the call."""

CALLS_PER_CLIENT_MAX: Final = 1024
"""Registers of each client. The numbers of the calls that it may retry differ by less."""
KEPT_RESPONSE_BYTES_MAX: Final = 4096
"""Upper bound for a stored return value, in bytes. A longer one is returned once."""

RESPONSE_NOT_KEPT: Final = "Forgotten: it was done, and its answer was too long"
EXPIRY_BATCH_MAX: Final = 512
"""Upper bound for the calls that one expiry visits. More would delay other operations."""
DESCRIPTION_CHARS_MAX: Final = 200

_SMALL_TYPES: Final = frozenset((type(None), bool, int, float))

_BYTES_HEADER_MAX: Final = 5
"""Upper bound for the header of a msgpack byte string."""

_encode: Final = msgspec.msgpack.Encoder().encode

RunOperation: TypeAlias = Callable[[Request, str, tuple[Any, ...], View], ExecutionResult]
"""Function that executes the operation of that name, with these arguments, for a request."""


def wrap_call(client: str, number: int, operation: Operation) -> Operation:
    return Operation(DEDUPLICATED_CALL, (client, number, operation.name, operation.arguments))


def describe_call(operation: Operation) -> str:
    """Return the client's operation as text, shortened for people."""
    operation = unwrap_call(operation)
    text = f"{operation.name}({', '.join(map(repr, operation.arguments))})"
    return text if len(text) <= DESCRIPTION_CHARS_MAX else f"{text[:DESCRIPTION_CHARS_MAX]}…"


def unwrap_call(operation: Operation) -> Operation:
    """Return the client's operation, without the wrapper of `wrap_call`."""
    return Operation(*operation.arguments[2:]) if is_deduplicated(operation) else operation


def expire_calls(before_us: int, client: str = "", number: int = 0) -> Operation:
    """Return the operation that expires calls older than `before_us`, starting at a register.

    It returns the number of expired calls, and the register to continue at, if any.
    """
    return Operation(EXPIRE_CALLS, (before_us, client, number))


def is_deduplicated(operation: Operation) -> bool:
    """Return True if `operation` is a well-formed `creek.once`. Others do not exist."""
    if operation.name != DEDUPLICATED_CALL or len(operation.arguments) != 4:
        return False
    client, number, name, arguments = operation.arguments
    is_named = type(client) is str and type(name) is str
    return is_named and type(number) is int and type(arguments) is tuple


def run_request(run_as: RunOperation, request: Request, view: View) -> ExecutionResult:
    """Execute a request: a deduplicated call, an expiry, an outcome query or a plain operation."""
    operation = request.operation
    if is_deduplicated(operation):
        return _run_deduplicated(run_as, request, view)
    if _is_expiry(operation):
        return _run_expiry(request, view)
    if _is_outcome_query(operation):
        return _run_outcome_query(request, view)
    name, arguments = operation.name, operation.arguments
    if name == IDENTIFY_CLUSTER and tuple(map(type, arguments)) == (str,):
        return _run_identification(request, view)
    return _run_client_operation(run_as, request, name, arguments, view)


def find_footprint(
    footprint_of: Callable[[Operation], Footprint | None], operation: Operation
) -> Footprint | None:
    """Return the registers that `run_request` can touch for this operation, or None for all.

    `footprint_of` returns those of a client's operation.
    """
    arguments = operation.arguments
    if is_deduplicated(operation):
        footprint = footprint_of(unwrap_call(operation))
        return None if footprint is None else footprint.with_register(_register(*arguments[:2]))
    if _is_expiry(operation):
        return Footprint(((CALLS_PREFIX,),))
    if _is_outcome_query(operation):
        return Footprint((_register(*arguments),))
    return footprint_of(operation)


def _is_expiry(operation: Operation) -> bool:
    name, arguments = operation.name, operation.arguments
    return name == EXPIRE_CALLS and tuple(map(type, arguments)) == (int, str, int)


def _is_outcome_query(operation: Operation) -> bool:
    return operation.name == QUERY_OUTCOME and tuple(map(type, operation.arguments)) == (str, int)


def _register(client: str, number: int) -> Key:
    """Return the register that holds the outcome of a call."""
    return (CALLS_PREFIX, client, number % CALLS_PER_CLIENT_MAX)


def _run_client_operation(
    run_as: RunOperation, request: Request, name: str, arguments: tuple[Any, ...], view: View
) -> ExecutionResult:
    """Execute a client's operation. It fails if it writes to a reserved register."""
    if name == BATCH and is_batch(arguments):
        return run_batch(partial(_run_batched_call, run_as, request), arguments, view)
    execution = run_as(request, name, arguments, view)
    if name != MEMBERSHIP_OPERATION:
        for written in (execution.writes, execution.blind_adds):
            for key in written:
                if type(key) is tuple and key and key[0] in RESERVED_PREFIXES:
                    error = f"BadValue: register {key!r} belongs to Creek; choose another name"
                    return ExecutionResult(Outcome(None, error), read_count=execution.read_count)
    return execution


def _run_batched_call(
    run_as: RunOperation, request: Request, name: str, arguments: tuple[Any, ...], view: View
) -> ExecutionResult:
    if name.startswith(INTERNAL_PREFIX):
        return ExecutionResult(Outcome(None, f"BadValue: '{name}' cannot be called in a batch"))
    return _run_client_operation(run_as, request, name, arguments, view)


def _run_deduplicated(run_as: RunOperation, request: Request, view: View) -> ExecutionResult:
    """Execute the call unless its register holds an outcome."""
    client, number, name, arguments = request.operation.arguments
    key = _register(client, number)
    stored = view.read(key)
    if stored is not ABSENT and stored[0] == number:
        _, _, value, error, fingerprint = stored
        if fingerprint != _fingerprint(name, arguments):
            value, error = None, f"NumberUsed: call {number} of {client} was another operation"
        return ExecutionResult(Outcome(value, error), read_count=1)
    execution = _run_client_operation(run_as, request, name, arguments, view)
    outcome, writes = execution.outcome, execution.writes
    # A call older than the stored one cannot be retried any more, so its outcome is not stored.
    if stored is ABSENT or stored[0] < number:
        value, error = outcome.value, outcome.error
        if not _is_small(value):
            value, error = None, RESPONSE_NOT_KEPT
        writes[key] = (number, request.timestamp, value, error, _fingerprint(name, arguments))
    reads = execution.read_count + 1
    return ExecutionResult(outcome, writes, reads, execution.scan_count, execution.blind_adds, view)


def _is_small(value: Any) -> bool:
    """Return True if `value` is short enough to be stored."""
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
    visited = list(islice(keys, EXPIRY_BATCH_MAX + 1))
    continuation: tuple[Any, ...] = ()
    if len(visited) > EXPIRY_BATCH_MAX:
        last = visited.pop()
        continuation = last[1:] if isinstance(last, tuple) else ()
    expired = [key for key in visited if view.read(key)[1] < before_us]
    value = (len(expired), *continuation)
    return ExecutionResult(Outcome(value), dict.fromkeys(expired, ABSENT), scan_count=len(visited))


def _run_outcome_query(request: Request, view: View) -> ExecutionResult:
    client, number = request.operation.arguments
    stored = view.read(_register(client, number))
    if stored is ABSENT or stored[0] != number or stored[3] == RESPONSE_NOT_KEPT:
        return ExecutionResult(Outcome(), read_count=1)
    _, _, value, error, _ = stored
    return ExecutionResult(Outcome((value, error)), read_count=1)


def _run_identification(request: Request, view: View) -> ExecutionResult:
    identity = view.read(IDENTITY_KEY)
    if identity is not ABSENT:
        return ExecutionResult(Outcome(identity), read_count=1, read_set=view)
    (proposed,) = request.operation.arguments
    return ExecutionResult(Outcome(proposed), {IDENTITY_KEY: proposed}, 1, read_set=view)


def _fingerprint(name: str, arguments: tuple[Any, ...]) -> int:
    """Return a checksum of the call. Two different calls rarely share one."""
    return crc32(_encode((name, arguments)))
