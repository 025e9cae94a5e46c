from hypothesis import given, settings
from hypothesis import strategies as st

from creekdb.checkers import CHECKERS, Ok, check_all
from creekdb.history import SchemeGuarantees
from tests.unit.checkers.history_builder import (
    CREEK,
    PRIMARY,
    STABLE_ONLY,
    HistoryBuilder,
    random_run,
    typical_run,
)


def test_every_checker_accepts_a_typical_run() -> None:
    assert check_all(typical_run().history()) == [Ok(checker.name) for checker in CHECKERS]


def test_every_checker_accepts_an_empty_run() -> None:
    assert all(isinstance(verdict, Ok) for verdict in check_all(HistoryBuilder().history()))


def test_the_registry_lists_each_checker_once_and_prefix_order_first() -> None:
    names = [checker.name for checker in CHECKERS]
    assert len(set(names)) == len(names) == 12
    assert names[0] == "prefix_order"


@settings(max_examples=150, deadline=None)
@given(st.integers(min_value=0, max_value=2**32), st.sampled_from((CREEK, PRIMARY, STABLE_ONLY)))
def test_every_checker_accepts_legal_runs_with_crashes_and_checkpoints(
    seed: int, guarantees: SchemeGuarantees
) -> None:
    for verdict in check_all(random_run(seed, guarantees).history()):
        assert isinstance(verdict, Ok), verdict.describe()
