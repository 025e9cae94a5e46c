"""The last calls over HTTP, by number and by the size of their answers."""

import pytest

from creekdb.http import calls
from creekdb.http.calls import CallRegistry, HttpCall
from creekdb.protocol.ids.version_vector import Dot
from creekdb.wire.messages import CallIssued, CallResponse


def made(event: int, value: str = "") -> HttpCall:
    call = HttpCall("get", strong=False, has_one_answer=True)
    call.receive(CallIssued(0, Dot(0, event)))
    call.receive(CallResponse(0, "tentative", value, None, False))
    return call


def test_the_oldest_are_forgotten_and_may_be_dropped_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "CALLS_MAX", 2)
    kept, some = CallRegistry(), [made(event) for event in (1, 2, 3)]
    for call in some:
        kept.add(call)
    kept.remove(some[0])

    assert [kept.get(f"0.{event}") for event in (1, 2, 3)] == [None, *some[1:]]
    assert kept.response_bytes == sum(each.response_bytes for each in some[1:])
    kept.remove(some[1])
    kept.remove(some[2])
    assert (len(kept), kept.response_bytes) == (0, 0)


def test_large_answers_push_out_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "BYTES_MAX", 100)
    kept = CallRegistry()
    kept.add(made(1))
    kept.add(made(2, "x" * 200))

    assert kept.get("0.1") is None
    assert kept.get("0.2") is not None
