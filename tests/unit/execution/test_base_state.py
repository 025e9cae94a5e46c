from hypothesis import given
from hypothesis import strategies as st

from creekdb.execution.base_state import EmptyBase
from creekdb.execution.keys import (
    FIRST_COLLATION_KEY,
    LAST_COLLATION_KEY,
    collation_key,
    merge_sorted_keys,
)
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key
from tests.unit.execution.strategies import KEYS


def test_the_empty_base_holds_no_registers() -> None:
    assert EmptyBase().read("a") is ABSENT
    assert list(EmptyBase().keys(FIRST_COLLATION_KEY, LAST_COLLATION_KEY, False)) == []


@given(st.sets(KEYS), st.sets(KEYS), st.booleans())
def test_two_sequences_are_merged_in_order_without_duplicates(
    left: set[Key], right: set[Key], reverse: bool
) -> None:
    def ordered(keys: set[Key]) -> list[Key]:
        return sorted(keys, key=collation_key, reverse=reverse)

    merged = merge_sorted_keys(iter(ordered(left)), iter(ordered(right)), reverse)

    assert list(merged) == ordered(left | right)


def test_merging_consumes_its_inputs_lazily() -> None:
    left, right = iter(("a", "c", "e")), iter(("b", "d"))

    assert next(merge_sorted_keys(left, right, False)) == "a"

    assert list(left) == ["c", "e"]
    assert list(right) == ["d"]
