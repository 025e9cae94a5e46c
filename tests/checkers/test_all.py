from hypothesis import given, settings
from hypothesis import strategies as st

from creekdb.checkers import CHECKERS, Ok, check_all
from creekdb.history import SchemeGuarantees
from tests.checkers.story import CREEK, PRIMARY, STABLE_ONLY, Story, everyday, random_story


def test_an_everyday_run_pleases_every_checker() -> None:
    assert check_all(everyday().history()) == [Ok(checker.name) for checker in CHECKERS]


def test_an_empty_run_pleases_every_checker() -> None:
    assert all(isinstance(verdict, Ok) for verdict in check_all(Story().history()))


def test_the_registry_names_each_checker_once_and_order_comes_first() -> None:
    names = [checker.name for checker in CHECKERS]
    assert len(set(names)) == len(names) == 12
    assert names[0] == "prefix_order"


@settings(max_examples=150, deadline=None)
@given(st.integers(min_value=0, max_value=2**32), st.sampled_from((CREEK, PRIMARY, STABLE_ONLY)))
def test_good_runs_with_crashes_and_checkpoints_please_every_checker(
    seed: int, terms: SchemeGuarantees
) -> None:
    for verdict in check_all(random_story(seed, terms).history()):
        assert isinstance(verdict, Ok), verdict.describe()
