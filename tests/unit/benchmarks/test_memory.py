"""Objects that count as memory."""

import sys

from benchmarks import memory
from benchmarks.scale import TINY
from benchmarks.versions import ALL
from creekdb.execution.mvcc.entry import RequestEntry, Version
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Request


def test_reachable_objects_are_counted_once() -> None:
    text = "x" * 1_000
    pair = [text, text]

    assert memory.memory_of(pair).bytes == sys.getsizeof(pair) + sys.getsizeof(text)
    assert memory.memory_of([pair, pair, sys, RequestEntry]).bytes < 3 * sys.getsizeof(text)


def test_versions_and_entries_are_counted() -> None:
    request = Request(1, Dot(0, 1), Operation("write", ("key", 1)), strong=False)
    entry = RequestEntry(request, (1,))
    entry.versions = {"key": Version(entry, 1), "other": Version(entry, 2)}

    measured = memory.memory_of([entry, entry])
    assert (measured.versions, measured.entries) == (2, 1)


def test_counts_do_not_depend_on_the_scale() -> None:
    results = [each for each in memory.measure(TINY) if each.unit != "×"]
    assert not any(result.missed for result in results)


def test_merged_runs_exist_when_they_are_measured() -> None:
    assert memory.tentative(60, 5, 16).merged_runs > 5
    assert memory.tentative(60, 5, ALL).merged_runs == 0
