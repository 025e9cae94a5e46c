from hypothesis import given
from hypothesis import strategies as st

from creekdb.execution.base_state import EmptyBase, merge_sorted_keys
from creekdb.execution.keys import FIRST_COLLATION_KEY, LAST_COLLATION_KEY, collation_key
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key
from tests.unit.execution.strategies import KEYS


def test_nothing_holds_nothing() -> None:
    assert EmptyBase().read("a") is ABSENT
    assert list(EmptyBase().keys(FIRST_COLLATION_KEY, LAST_COLLATION_KEY, False)) == []


@given(st.sets(KEYS), st.sets(KEYS), st.booleans())
def test_two_sequences_are_merged_in_order_without_repetition(
    left: set[Key], right: set[Key], reverse: bool
) -> None:
    def ordered(keys: set[Key]) -> list[Key]:
        return sorted(keys, key=collation_key, reverse=reverse)

    both = merge_sorted_keys(iter(ordered(left)), iter(ordered(right)), reverse)

    assert list(both) == ordered(left | right)


def test_merging_takes_no_more_than_it_is_asked_for() -> None:
    left, right = iter(("a", "c", "e")), iter(("b", "d"))

    assert next(merge_sorted_keys(left, right, False)) == "a"

    assert list(left) == ["c", "e"]
    assert list(right) == ["d"]
