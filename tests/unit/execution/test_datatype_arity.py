"""Number of arguments that an operation accepts."""

import pytest

from creekdb.execution.datatype import Arity


@pytest.mark.parametrize(
    ("arity", "count", "accepted"),
    [
        (Arity(1, 2), 0, False),
        (Arity(1, 2), 1, True),
        (Arity(1, 2), 2, True),
        (Arity(1, 2), 3, False),
        (Arity(1, None), 0, False),
        (Arity(1, None), 99, True),
    ],
)
def test_counts_between_minimum_and_maximum_are_accepted(
    arity: Arity, count: int, accepted: bool
) -> None:
    assert arity.accepts(count) is accepted


@pytest.mark.parametrize(
    ("arity", "other", "covers"),
    [
        (Arity(0, 2), Arity(1, 2), True),
        (Arity(0, 2), Arity(1, 3), False),
        (Arity(1, None), Arity(1, 3), True),
        (Arity(1, None), Arity(0, None), False),
        (Arity(0, 9), Arity(0, None), False),
    ],
)
def test_an_arity_covers_a_narrower_one(arity: Arity, other: Arity, covers: bool) -> None:
    assert arity.covers(other) is covers
