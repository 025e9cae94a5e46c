"""The call registry is bounded by the number of calls and by the size of their responses."""

from creekdb.http.calls import CallRegistry, HttpCall
from creekdb.protocol.effects import Response, ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Outcome
from creekdb.wire.messages import CallRequest


def completed_call(event: int, value: str = "") -> HttpCall:
    call, id = HttpCall("", CallRequest(0, "get"), has_single_response=True), Dot(0, event)
    call.send_issued(0, id)
    call.send_response(0, Response(id, 0, ResponseKind.TENTATIVE, Outcome(value)))
    return call


def test_the_oldest_calls_are_evicted_and_may_be_removed_again() -> None:
    registry, issued = CallRegistry(2, 1_000_000), [completed_call(event) for event in (1, 2, 3)]
    for call in issued:
        registry.add(call)
    registry.remove(issued[0])

    assert [registry.get(f"0.{event}") for event in (1, 2, 3)] == [None, *issued[1:]]
    assert registry.response_bytes == sum(each.response_bytes for each in issued[1:])
    registry.remove(issued[1])
    registry.remove(issued[2])
    assert (len(registry), registry.response_bytes) == (0, 0)


def test_a_large_response_evicts_older_calls() -> None:
    registry = CallRegistry(1000, 100)
    registry.add(completed_call(1))
    registry.add(completed_call(2, "x" * 200))

    assert registry.get("0.1") is None
    assert registry.get("0.2") is not None
