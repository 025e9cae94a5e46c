"""What was withdrawn and may come back otherwise, and who rests on it.

The versions of a withdrawn request are hidden from new snapshots, but who has read them is not in
doubt yet: executed again, the request may write the same. Until then what rests on them is not
*sure*, and must not be answered.
"""

from sortedcontainers import SortedList

from creek.execution.contents import Contents
from creek.execution.entries import Entry, Position, Read, Version
from creek.protocol.values import Key


class Unsure:
    __slots__ = ("_contents", "positions")

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self.positions: SortedList[Position] = SortedList()
        """Where the entries stand that have hidden versions."""

    def begins_after(self, position: Position) -> bool:
        """Is everything that counts as executed up to here valid for now?"""
        return not self.positions or position < self.positions[0]

    def behind(self, reads: dict[Key, Read]) -> Entry | None:
        """Whose hidden version was read, or is behind what others wrote that was read; None when
        all of it is sure."""
        if not self.positions:
            return None
        first = self.positions[0]
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
