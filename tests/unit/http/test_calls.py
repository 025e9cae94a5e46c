"""The last calls over HTTP, by number and by the size of their answers."""

import pytest

from creekdb.http import calls
from creekdb.http.calls import Call, Calls
from creekdb.protocol.ids.version_vector import Dot
from creekdb.wire.messages import Answer, Issued


def made(event: int, value: str = "") -> Call:
    call = Call("get", strong=False, has_one_answer=True)
    call.hear(Issued(0, Dot(0, event)))
    call.hear(Answer(0, "tentative", value, None, False))
    return call


def test_the_oldest_are_forgotten_and_may_be_dropped_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "CALLS_MAX", 2)
    kept, some = Calls(), [made(event) for event in (1, 2, 3)]
    for call in some:
        kept.keep(call)
    kept.drop(some[0])

    assert [kept.find(f"0.{event}") for event in (1, 2, 3)] == [None, *some[1:]]
    assert kept.size == sum(each.size for each in some[1:])
    kept.drop(some[1])
    kept.drop(some[2])
    assert (len(kept), kept.size) == (0, 0)


def test_large_answers_push_out_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "BYTES_MAX", 100)
    kept = Calls()
    kept.keep(made(1))
    kept.keep(made(2, "x" * 200))

    assert kept.find("0.1") is None
    assert kept.find("0.2") is not None
