"""What was withdrawn and may come back otherwise, and who rests on it.

The versions of a withdrawn request are hidden from new snapshots, but who has read them is not in
doubt yet: executed again, the request may write the same. Until then what rests on them is not
*sure*, and must not be answered.
"""

from sortedcontainers import SortedList

from creekdb.execution.contents import Contents
from creekdb.execution.entries import Entry, Position, Read, Version
from creekdb.protocol.values import Key


class Unsure:
    __slots__ = ("_contents", "_first", "_positions")

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._positions: SortedList[Position] = SortedList()
        """Where the entries stand that have hidden versions."""
        self._first: Position | None = None
        """Of these; mostly there are none."""

    def add(self, position: Position) -> None:
        self._positions.add(position)
        self._first = self._positions[0]

    def remove(self, position: Position) -> None:
        self._positions.remove(position)
        self._first = self._positions[0] if self._positions else None

    def clear(self) -> None:
        self._positions.clear()
        self._first = None

    def begins_after(self, position: Position) -> bool:
        """Is everything that counts as executed up to here valid for now?"""
        return self._first is None or position < self._first

    def behind(self, reads: dict[Key, Read]) -> Entry | None:
        """Whose hidden version was read, or is behind what others wrote that was read; None when
        all of it is sure."""
        first = self._first
        if first is None:
            return None
        seen: set[Entry] = set()
        reading = [reads]
        while reading:
            for key, (read, _) in reading.pop().items():
                for version in self._parts(key, read):
                    writer = version.writer
                    if writer is None or writer.position < first or writer in seen:
                        continue
                    if writer.hidden.get(key) is version:
                        return writer
                    seen.add(writer)
                    reading.append(writer.reads)
        return None

    def _parts(self, key: Key, read: Version | None) -> list[Version]:
        """The versions that a value comes from: of a sum, more than one."""
        if read is None:
            return []
        if not read.delta or read.writer is None or read.writer.hidden.get(key) is read:
            return [read]
        return self._contents.chain(key).parts(read)
