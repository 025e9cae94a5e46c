"""How many arguments an operation takes."""

import pytest

from creekdb.execution.datatype import Arity


@pytest.mark.parametrize(
    ("arity", "count", "takes"),
    [
        (Arity(1, 2), 0, False),
        (Arity(1, 2), 1, True),
        (Arity(1, 2), 2, True),
        (Arity(1, 2), 3, False),
        (Arity(1, None), 0, False),
        (Arity(1, None), 99, True),
    ],
)
def test_what_is_between_the_least_and_the_most_is_taken(
    arity: Arity, count: int, takes: bool
) -> None:
    assert arity.accepts(count) is takes


@pytest.mark.parametrize(
    ("one", "other", "covers"),
    [
        (Arity(0, 2), Arity(1, 2), True),
        (Arity(0, 2), Arity(1, 3), False),
        (Arity(1, None), Arity(1, 3), True),
        (Arity(1, None), Arity(0, None), False),
        (Arity(0, 9), Arity(0, None), False),
    ],
)
def test_one_covers_another(one: Arity, other: Arity, covers: bool) -> None:
    assert one.covers(other) is covers
