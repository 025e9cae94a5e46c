"""When garbage is looked for, while a live replica runs."""

import gc
from collections.abc import Iterator

import pytest

from creekdb.execution.python_runtime import (
    FULL_SCAN_ROUNDS,
    FULL_SCAN_THRESHOLDS,
    OBJECTS_PER_CALL,
    GcSampler,
    reduced_gc,
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


def test_what_is_made_is_looked_at_when_that_is_asked_for(looked: list[int]) -> None:
    with GcSampler.install() as samples:
        looked.clear()
        kept = [[each] for each in range(3 * FULL_SCAN_THRESHOLDS[0])]
        assert not looked
        samples.sample(0)
        assert looked == [0]
        assert gc.get_freeze_count() > len(kept), "and never again"


def test_what_was_set_aside_is_not_looked_at(looked: list[int]) -> None:
    with GcSampler.install() as samples:
        looked.clear()
        Knot()
        samples.freeze()
        samples.sample(0)
        assert looked == [0]
        Knot()
        samples.sample(0)
        assert looked[1] >= 1


def test_once_garbage_is_found_everything_is_looked_at(looked: list[int]) -> None:
    with GcSampler.install() as samples:
        Knot()
        samples.sample(0)
        looked.clear()
        for _ in range(5 * FULL_SCAN_THRESHOLDS[0]):
            Knot()
        assert sum(looked) > 3 * FULL_SCAN_THRESHOLDS[0], "whoever asks for it or not"
        samples.freeze()
        Knot()
        gc.collect(0)
        assert looked[-1] >= 1, "nothing is set aside"
        for _ in range(FULL_SCAN_ROUNDS + 1):
            samples.sample(0)
        looked.clear()
        kept = [[each] for each in range(3 * FULL_SCAN_THRESHOLDS[0])]
        assert not looked, f"there was none for a while: nobody looked at {len(kept)}"


def test_what_is_under_way_is_not_looked_at_over_and_over() -> None:
    with GcSampler.install() as samples:
        Knot()
        samples.sample(0)
        assert gc.get_threshold() == FULL_SCAN_THRESHOLDS
        many = 10 * FULL_SCAN_THRESHOLDS[0] // OBJECTS_PER_CALL
        samples.sample(many)
        assert gc.get_threshold() == (OBJECTS_PER_CALL * many, *FULL_SCAN_THRESHOLDS[1:])
        samples.sample(0)
        assert FULL_SCAN_THRESHOLDS[0] < gc.get_threshold()[0] < OBJECTS_PER_CALL * many, (
            "calls come in waves"
        )
        for _ in range(100):
            samples.sample(0)
        assert gc.get_threshold() == FULL_SCAN_THRESHOLDS
    gc.unfreeze()


def test_afterwards_it_is_as_before() -> None:
    before = gc.get_threshold()
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        with reduced_gc():
            assert gc.get_threshold() != before
        callbacks = list(gc.callbacks)
        with GcSampler.install() as samples:
            samples.sample(0)
        assert (gc.isenabled(), gc.get_threshold(), gc.callbacks) == (enabled, before, callbacks)
    gc.enable()
    gc.unfreeze()
