import msgspec
import pytest

from creekdb.checkers import Illegal, Ok
from creekdb.checkers.blackbox import (
    CallStatus,
    FinalObservation,
    ObservedRun,
    get_model,
    judge,
)
from creekdb.checkers.blackbox.history_files.jepsen import EventPairing, decode_event
from tests.unit.checkers.blackbox.observed_histories import call


def test_only_illegal_verdicts_have_pictures() -> None:
    for value, expected in ((None, Ok), (1, Illegal)):
        run = ObservedRun(datatype="kv", calls=(call("a", "get", "x", at=(0, 1), value=value),))
        judgement, once, sessions = judge(run, get_model("kv"))
        assert isinstance(judgement.verdict, expected)
        assert (judgement.picture is not None) == (expected is Illegal)
        assert once == (Ok("exactly once"), None)
        assert sessions == (Ok("sessions"), None)


def test_a_session_that_misses_its_own_write_is_illegal() -> None:
    calls = (
        call("a", "put", "x", 7, at=(0, 1), value=None),
        call("a", "get", "x", at=(2, 3), value=None),
    )
    *_, sessions = judge(ObservedRun(datatype="kv", calls=calls), get_model("kv"))

    assert isinstance(sessions.verdict, Illegal)
    assert "read your writes" in sessions.verdict.message


def test_a_put_that_was_executed_twice_is_illegal() -> None:
    put = call("a", "put", "x", 7, at=(0, 1), value=7)
    _, once, _ = judge(ObservedRun(datatype="kv", calls=(put,)), get_model("kv"))

    assert isinstance(once.verdict, Illegal)
    assert "returned a previous value" in once.verdict.message


@pytest.mark.parametrize(("datatype", "operation"), [("register", "read"), ("transactions", "run")])
def test_final_responses_of_every_data_type_are_compared(datatype: str, operation: str) -> None:
    weak = call("a", operation, at=(0, 1), value=(), strong=False)
    for changed, expected in ((False, Ok), (True, Illegal)):
        final = FinalObservation(2, CallStatus.OK, (), changed)
        run = ObservedRun(datatype=datatype, calls=(msgspec.structs.replace(weak, final=final),))
        verdicts = [each.verdict for each in judge(run, get_model(datatype))]
        assert isinstance(
            next(each for each in verdicts if each.checker == "exactly once"), expected
        )


def test_transactions_are_judged_by_their_dependencies() -> None:
    lines = (
        '{:process 0, :type :invoke, :f :txn, :value [[:append "x" 1]]}',
        '{:process 0, :type :ok, :f :txn, :value [[:append "x" 1]]}',
        '{:process 1, :type :invoke, :f :txn, :value [[:r "x" nil]]}',
        '{:process 1, :type :ok, :f :txn, :value [[:r "x" []]]}',
    )
    pairing = EventPairing()
    for line in lines:
        event = decode_event(line)
        assert event is not None
        pairing.add(event)
    run = ObservedRun(datatype="transactions", calls=tuple(pairing.calls()))
    ((verdict, picture),) = judge(run, get_model("transactions"))

    assert isinstance(verdict, Illegal)
    assert "realtime" in verdict.message
    assert picture is not None
