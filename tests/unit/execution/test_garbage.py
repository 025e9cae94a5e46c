"""When garbage is looked for, while a live replica runs."""

import gc
from collections.abc import Iterator

import pytest

from creek.execution.garbage import (
    OF_A_CALL,
    SAMPLE,
    THOROUGH,
    THOROUGH_BEATS,
    Samples,
    seldom_collecting,
)


class Knot:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def looked() -> Iterator[list[int]]:
    """What each look found."""
    found: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            found.append(info["collected"])

    gc.collect()
    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)
    gc.unfreeze()


def test_of_much_that_is_kept_only_a_sample_is_looked_at(looked: list[int]) -> None:
    with Samples.taken() as samples:
        samples.beat(0)
        looked.clear()
        kept = [[each] for each in range(20 * SAMPLE)]
        assert len(looked) == 1
        samples.beat(0)
        kept += [[each] for each in range(20 * SAMPLE)]
        assert looked == [0, 0]
        assert gc.get_freeze_count() > len(kept) // 2, "the others are set aside"


def test_the_little_that_an_idle_replica_makes_is_looked_at_too(looked: list[int]) -> None:
    with Samples.taken() as samples:
        samples.beat(0)
        looked.clear()
        Knot()
        samples.beat(0)
        assert looked[0] >= 1


def test_once_garbage_is_found_everything_is_looked_at(looked: list[int]) -> None:
    with Samples.taken() as samples:
        samples.beat(0)
        knots = 0
        while knots < 20 * THOROUGH[0]:
            Knot()
            knots += 1
            if knots % SAMPLE == 0:
                samples.beat(0)
        assert sum(looked) > 0.8 * knots
        for _ in range(2 * THOROUGH_BEATS + 2):
            samples.beat(0)
        looked.clear()
        kept = [[each] for each in range(3 * THOROUGH[0])]
        assert len(looked) == 1, f"there was none for a while: a sample will do of {len(kept)}"


def test_what_is_under_way_is_not_looked_at_over_and_over() -> None:
    with Samples.taken() as samples:
        samples.beat(0)
        knots = [Knot() for _ in range(10)]
        knots.clear()
        samples.beat(0)  # finds them
        samples.beat(0)
        assert gc.get_threshold() == THOROUGH
        many = 10 * THOROUGH[0] // OF_A_CALL
        samples.beat(many)
        assert gc.get_threshold() == (OF_A_CALL * many, *THOROUGH[1:])
        samples.beat(0)
        assert THOROUGH[0] < gc.get_threshold()[0] < OF_A_CALL * many, "calls come in waves"
        for _ in range(100):
            samples.beat(0)
        assert gc.get_threshold() == THOROUGH
    gc.unfreeze()


def test_afterwards_it_is_as_before() -> None:
    before = gc.get_threshold()
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        with seldom_collecting():
            assert gc.get_threshold() != before
        callbacks = list(gc.callbacks)
        with Samples.taken() as samples:
            samples.beat(0)
        assert (gc.isenabled(), gc.get_threshold(), gc.callbacks) == (enabled, before, callbacks)
    gc.enable()
    gc.unfreeze()
