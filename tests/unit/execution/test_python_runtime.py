"""Garbage collection of a live replica."""

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


class Cycle:
    """Object in a reference cycle of its own."""

    def __init__(self) -> None:
        self.reference = self


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """Number of objects that each collection freed."""
    freed: list[int] = []

    def record(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            freed.append(info["collected"])

    gc.collect()
    gc.callbacks.append(record)
    yield freed
    gc.callbacks.remove(record)
    gc.unfreeze()


def test_objects_are_collected_only_by_samples(collections: list[int]) -> None:
    with GcSampler.install() as sampler:
        collections.clear()
        objects = [[each] for each in range(3 * FULL_SCAN_THRESHOLDS[0])]
        assert not collections
        sampler.sample(0)
        assert collections == [0]
        assert gc.get_freeze_count() > len(objects), "they are frozen"


def test_frozen_objects_are_not_collected(collections: list[int]) -> None:
    with GcSampler.install() as sampler:
        collections.clear()
        Cycle()
        sampler.freeze()
        sampler.sample(0)
        assert collections == [0]
        Cycle()
        sampler.sample(0)
        assert collections[1] >= 1


def test_found_garbage_enables_full_collection_for_a_while(collections: list[int]) -> None:
    with GcSampler.install() as sampler:
        Cycle()
        sampler.sample(0)
        collections.clear()
        for _ in range(5 * FULL_SCAN_THRESHOLDS[0]):
            Cycle()
        assert sum(collections) > 3 * FULL_SCAN_THRESHOLDS[0], "even without a sample"
        sampler.freeze()
        Cycle()
        gc.collect(0)
        assert collections[-1] >= 1, "no object is frozen"
        for _ in range(FULL_SCAN_ROUNDS + 1):
            sampler.sample(0)
        collections.clear()
        objects = [[each] for each in range(3 * FULL_SCAN_THRESHOLDS[0])]
        assert not collections, f"full collection is over: {len(objects)} objects are not collected"


def test_the_threshold_follows_the_calls_in_progress() -> None:
    with GcSampler.install() as sampler:
        Cycle()
        sampler.sample(0)
        assert gc.get_threshold() == FULL_SCAN_THRESHOLDS
        many = 10 * FULL_SCAN_THRESHOLDS[0] // OBJECTS_PER_CALL
        sampler.sample(many)
        assert gc.get_threshold() == (OBJECTS_PER_CALL * many, *FULL_SCAN_THRESHOLDS[1:])
        sampler.sample(0)
        assert FULL_SCAN_THRESHOLDS[0] < gc.get_threshold()[0] < OBJECTS_PER_CALL * many, (
            "calls come in waves"
        )
        for _ in range(100):
            sampler.sample(0)
        assert gc.get_threshold() == FULL_SCAN_THRESHOLDS
    gc.unfreeze()


def test_the_previous_settings_are_restored() -> None:
    before = gc.get_threshold()
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        with reduced_gc():
            assert gc.get_threshold() != before
        callbacks = list(gc.callbacks)
        with GcSampler.install() as sampler:
            sampler.sample(0)
        assert (gc.isenabled(), gc.get_threshold(), gc.callbacks) == (enabled, before, callbacks)
    gc.enable()
    gc.unfreeze()
