from creekdb.checkers import Illegal, Ok
from creekdb.checkers.blackbox import ObservedRun, get_model, judge
from tests.unit.checkers.blackbox.observed_histories import call


def test_only_illegal_verdicts_have_pictures() -> None:
    for value, expected in ((None, Ok), (1, Illegal)):
        run = ObservedRun(datatype="kv", calls=(call("a", "get", "x", at=(0, 1), value=value),))
        (judgement,) = judge(run, get_model("kv"))
        assert isinstance(judgement.verdict, expected)
        assert (judgement.picture is not None) == (expected is Illegal)
