"""Records of a journal on their way to the disk, and the place of an image that comes later."""

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from creekdb.errors import StorageFault


class Room:
    """The place of an image that is yet to come."""

    __slots__ = ("number", "position", "ready")

    def __init__(self, position: int) -> None:
        self.position = position
        self.number: int | None = None
        """Of its segment, once all before it is durable."""
        self.ready = threading.Event()
        """Has it a number, or will it never have one?"""


class Group:
    """Records that are made durable together."""

    __slots__ = ("first", "image", "number", "path", "payloads", "pieces", "room", "size")

    def __init__(self, first: int, image: bool, room: Room | None = None) -> None:
        self.first = first
        self.image = image
        self.room = room
        """None of them: where they would be, an image comes later."""
        self.payloads: list[bytes] = []
        self.pieces: Iterable[bytes] | None = None
        """What makes up an image that is the only record of the group."""
        self.number: int | None = None
        """Of the file of that image, however often it is tried."""
        self.path: Path | None = None
        """Where that image is, once it is written."""
        self.size = 0

    @property
    def is_plain(self) -> bool:
        """Has it nothing but records, none of which is an image?"""
        return not self.image and self.room is None


class Done(NamedTuple):
    """What came of writing a group."""

    fault: StorageFault | None = None
    broken: bool = False
