"""Files that a process may have, and those that connections leave over."""

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
def test_it_asks_for_as_many_as_it_may_have(
    monkeypatch: pytest.MonkeyPatch, before: Limits, after: Limits | None
) -> None:
    asked = list[Limits]()
    monkeypatch.setattr(resource, "getrlimit", lambda what: before)
    monkeypatch.setattr(resource, "setrlimit", lambda what, limits: asked.append(limits))
    listeners.raise_open_files_limit()
    assert asked == ([] if after is None else [after])


@contextmanager
def taken(count: int) -> Iterator[int]:
    """So many files more; the lowest number that is free then."""
    files = [os.dup(0) for _ in range(count)]
    try:
        free = os.dup(0)
        os.close(free)
        yield free
    finally:
        for each in files:
            os.close(each)


@pytest.mark.parametrize(
    "left_over", [listeners.RESERVED_FILES, listeners.RESERVED_FILES_BEYOND_PEERS]
)
def test_it_is_crowded_when_only_those_are_left(
    monkeypatch: pytest.MonkeyPatch, left_over: int
) -> None:
    with taken(20) as free:
        for least, is_crowded in ((left_over + free, True), (left_over + free + 1, False)):
            most = max(least, 2 * listeners.RESERVED_FILES)
            monkeypatch.setattr(resource, "getrlimit", lambda what, most=most: (most, most))
            assert listeners.is_at_connection_limit(left_over) is (is_crowded and most == least)
            unlimited = resource.RLIM_INFINITY
        monkeypatch.setattr(resource, "getrlimit", lambda what: (unlimited, unlimited))
        assert not listeners.is_at_connection_limit(left_over)


def test_where_there_are_few_clients_leave_half_and_peers_a_quarter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with taken(20) as free:
        monkeypatch.setattr(resource, "getrlimit", lambda what: (2 * free, 2 * free))
        assert listeners.is_at_connection_limit(listeners.RESERVED_FILES)
        assert not listeners.is_at_connection_limit(listeners.RESERVED_FILES_BEYOND_PEERS)
        monkeypatch.setattr(resource, "getrlimit", lambda what: (free + 1, free + 1))
        assert listeners.is_at_connection_limit(listeners.RESERVED_FILES_BEYOND_PEERS)
