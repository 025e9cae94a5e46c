"""Whoever looks on while a replica works: the page, for instance, while somebody has it open."""

from typing import Protocol

from creekdb.protocol.effects import Response, Task
from creekdb.protocol.ids.version_vector import Dot


class Onlooker(Protocol):
    def invoked(self, id: Dot) -> None:
        """A client of this replica has called."""

    def answered(self, response: Response) -> None:
        """This leaves now."""

    def executing(self, tasks: tuple[Task, ...]) -> None: ...
