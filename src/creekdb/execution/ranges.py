"""What scans went through: who has to be told of a key that is new to the store.

A range is filed under what every key inside it starts with, so that a new key is held against the
ranges around it only: those filed under one of its own beginnings.
"""

from collections.abc import Iterable, Iterator

from creekdb.execution.entries import Entry, Range
from creekdb.execution.keys import Place


class Ranges:
    __slots__ = ("_filed",)

    def __init__(self) -> None:
        self._filed: dict[Place, dict[Range, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._filed)

    def add(self, passed: Range, reader: Entry) -> None:
        passed.reader = reader
        self._filed.setdefault(_common(passed), {})[passed] = None

    def remove(self, passed: Range) -> None:
        common = _common(passed)
        filed = self._filed[common]
        del filed[passed]
        if not filed:
            del self._filed[common]

    def readers(self, here: Place) -> Iterator[Entry]:
        """Who scanned past this place."""
        for length in range(len(here) + 1):
            for passed in self._filed.get(here[:length], ()):
                if passed.start <= here < passed.stop and passed.reader is not None:
                    yield passed.reader


def united(ranges: Iterable[Range]) -> list[Range]:
    """As few ranges as possible that cover the same places."""
    whole: list[Range] = []
    for each in sorted(ranges, key=_start):
        if whole and each.start <= whole[-1].stop:
            whole[-1].stop = max(whole[-1].stop, each.stop)
        else:
            whole.append(Range(each.start, each.stop))
    return whole


def _start(passed: Range) -> Place:
    return passed.start


def _common(passed: Range) -> Place:
    """What every key inside the range starts with."""
    length = 0
    for left, right in zip(passed.start, passed.stop, strict=False):
        if left != right:
            break
        length += 1
    return passed.start[:length]
