"""Responses of one call, in the order in which a replica sends them."""

import asyncio
from typing import Any

import pytest

from creekdb.client import OperationFailed, Unknown
from creekdb.client.calls import Call, FinalOutcome
from creekdb.errors import UsageError
from creekdb.protocol.effects import ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.wire.messages import CallRequest, CallResponse


def new_call(strong: bool) -> Call[Any]:
    return Call(CallRequest(1, "put", (), strong), 60.0)


def response(kind: ResponseKind, value: Any = None, **fields: Any) -> CallResponse:
    return CallResponse(1, kind.value, value, **fields)


async def test_a_strong_call_ends_with_its_stable_response() -> None:
    call = new_call(strong=True)
    for value in (1, 2):
        call.add_response(response(ResponseKind.TENTATIVE, value))
        assert not call.has_response
    assert await call.tentative == 1

    call.add_response(response(ResponseKind.STABLE, 3, changed=True))
    assert call.is_complete
    assert await call == 3
    assert await call.final == FinalOutcome(3, True)


async def test_a_weak_call_returns_its_first_response_and_stays_open() -> None:
    call = new_call(strong=False)
    call.id = Dot(0, 1)
    call.add_response(response(ResponseKind.TENTATIVE, 1))
    assert call.has_response
    assert not call.is_complete

    final = asyncio.ensure_future(call.final)
    await asyncio.sleep(0)
    call.add_response(response(ResponseKind.FINAL, 2, changed=True))
    assert await call == 1
    assert await final == FinalOutcome(2, True)
    assert [each.value async for each in call] == [1, 2]


async def test_a_local_read_has_one_response() -> None:
    call = new_call(strong=False)
    call.id = Dot(0, -1)
    call.add_response(response(ResponseKind.TENTATIVE, 1))

    assert call.is_complete
    with pytest.raises(UsageError, match="a weak read has one tentative response only"):
        await call.final


async def test_an_error_of_the_operation_is_raised_and_iterated() -> None:
    call = new_call(strong=True)
    call.add_response(response(ResponseKind.STABLE, None, error="ValueError: no"))

    with pytest.raises(OperationFailed, match="ValueError: no"):
        await call
    assert [each.error async for each in call] == ["ValueError: no"]


async def raised_error(call: Call[Any], response: Any) -> OperationFailed:
    with pytest.raises(OperationFailed) as raised:
        await response
    assert raised.value.call is call
    return raised.value


async def test_a_failed_operation_has_the_parts_of_its_error() -> None:
    call = new_call(strong=True)
    call.add_response(response(ResponseKind.STABLE, None, error="LookupError: no lamp: none left"))

    error = await raised_error(call, call)
    assert (error.error, error.message) == ("LookupError", "no lamp: none left")
    assert str(error) == "LookupError: no lamp: none left"
    assert error.kind == "stable"
    assert not error.changed


async def test_a_failure_after_a_success_is_changed_and_final() -> None:
    call = new_call(strong=False)
    call.add_response(response(ResponseKind.TENTATIVE, "C9"))
    call.add_response(response(ResponseKind.FINAL, None, error="Taken: by bob", changed=True))

    assert await call == "C9"
    error = await raised_error(call, call.final)
    assert (error.error, error.kind, error.changed) == ("Taken", "final", True)


async def test_a_failure_after_another_failure_is_not_changed() -> None:
    call = new_call(strong=False)
    call.add_response(response(ResponseKind.TENTATIVE, None, error="Taken: by eve"))
    call.add_response(response(ResponseKind.FINAL, None, error="Taken: by bob", changed=True))

    first = await raised_error(call, call)
    assert (first.kind, first.changed, first.message) == ("tentative", False, "by eve")
    last = await raised_error(call, call.final)
    assert (last.kind, last.changed, last.message) == ("final", False, "by bob")


async def test_a_failure_may_become_a_success() -> None:
    call = new_call(strong=False)
    call.add_response(response(ResponseKind.TENTATIVE, None, error="Taken: by eve"))
    call.add_response(response(ResponseKind.FINAL, "C9", changed=True))

    error = await raised_error(call, call)
    assert await error.call.final == FinalOutcome("C9", True)


@pytest.mark.parametrize(("queried", "changed"), [((1, None), False), ((2, None), True)])
async def test_a_queried_outcome_states_whether_it_changed(queried: Any, changed: bool) -> None:
    call = new_call(strong=False)
    call.add_response(response(ResponseKind.TENTATIVE, 1))

    async def query() -> Any:
        return queried

    call.query_outcome = query
    call.fail(Unknown("the replica was lost"))
    assert await call.final == FinalOutcome(queried[0], changed)


async def test_an_outcome_that_is_not_retained_stays_unknown() -> None:
    call = new_call(strong=False)
    call.add_response(response(ResponseKind.TENTATIVE, 1))

    async def query() -> None:
        return None

    call.query_outcome = query
    call.fail(Unknown("the replica was lost"))
    assert await call == 1
    with pytest.raises(Unknown, match="the replica was lost"):
        await call.final


async def test_a_complete_call_does_not_fail_later() -> None:
    call = new_call(strong=True)
    call.add_response(response(ResponseKind.STABLE, 3))
    call.fail(Unknown("the connection was closed"))

    assert await call == 3
