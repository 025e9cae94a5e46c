"""The limit of open files, and the files reserved from connections."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from creekdb.server.transport import listeners

Limits = tuple[int, int]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1024, 4096), (4096, 4096)),
        ((1024, 2**20), (listeners.OPEN_FILES_MAX, 2**20)),
        ((1024, resource.RLIM_INFINITY), (listeners.OPEN_FILES_MAX, resource.RLIM_INFINITY)),
        ((2**20, 2**20), None),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), None),
    ],
)
def test_the_soft_limit_is_raised_towards_the_hard_limit(
    monkeypatch: pytest.MonkeyPatch, before: Limits, after: Limits | None
) -> None:
    requested = list[Limits]()
    monkeypatch.setattr(resource, "getrlimit", lambda kind: before)
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: requested.append(limits))
    listeners.raise_open_files_limit()
    assert requested == ([] if after is None else [after])


@contextmanager
def extra_open_files(count: int) -> Iterator[int]:
    """Open `count` files, and yield the lowest free descriptor."""
    files = [os.dup(0) for _ in range(count)]
    try:
        free = os.dup(0)
        os.close(free)
        yield free
    finally:
        for each in files:
            os.close(each)


@pytest.mark.parametrize(
    "reserved", [listeners.RESERVED_FILES, listeners.RESERVED_FILES_BEYOND_PEERS]
)
def test_the_connection_limit_is_reached_when_only_reserved_files_are_free(
    monkeypatch: pytest.MonkeyPatch, reserved: int
) -> None:
    with extra_open_files(20) as free:
        for limit, is_limited in ((reserved + free, True), (reserved + free + 1, False)):
            effective_limit = max(limit, 2 * listeners.RESERVED_FILES)
            monkeypatch.setattr(
                resource,
                "getrlimit",
                lambda kind, effective_limit=effective_limit: (effective_limit, effective_limit),
            )
            assert listeners.is_at_connection_limit(reserved) is (
                is_limited and effective_limit == limit
            )
            unlimited = resource.RLIM_INFINITY
        monkeypatch.setattr(resource, "getrlimit", lambda kind: (unlimited, unlimited))
        assert not listeners.is_at_connection_limit(reserved)


def test_with_a_low_limit_half_is_reserved_from_clients_and_a_quarter_from_peers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with extra_open_files(20) as free:
        monkeypatch.setattr(resource, "getrlimit", lambda kind: (2 * free, 2 * free))
        assert listeners.is_at_connection_limit(listeners.RESERVED_FILES)
        assert not listeners.is_at_connection_limit(listeners.RESERVED_FILES_BEYOND_PEERS)
        monkeypatch.setattr(resource, "getrlimit", lambda kind: (free + 1, free + 1))
        assert listeners.is_at_connection_limit(listeners.RESERVED_FILES_BEYOND_PEERS)
