"""How much may wait for a majority that cannot be reached.

Weak calls are answered all the same, and strong ones tentatively; but what they leave behind stays
until the others are back. So both are bounded, and beyond that clients are told why.
"""

from collections.abc import Callable
from typing import Final

from creekdb.protocol.effects import Event, Installed
from creekdb.protocol.ids.version_vector import Dot

TENTATIVE_MAX: Final = 1_000_000
"""Requests that are not committed yet, whoever issued them."""


class Undecided:
    """The strong calls of this replica's clients that have no stable answer yet."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._ids: set[Dot] = set()

    def __len__(self) -> int:
        return len(self._ids)

    def issued(self, id: Dot) -> None:
        self._ids.add(id)

    def answered(self, id: Dot) -> None:
        """Stably."""
        self._ids.discard(id)

    def observe(self, events: tuple[Event, ...]) -> None:
        """What a checkpoint brought is answered now, or never."""
        for event in events:
            if type(event) is Installed:
                self._ids = {id for id in self._ids if id not in event.ids}

    def refusal(
        self, strong: bool, tentative: int, reach: Callable[[], tuple[int, int]]
    ) -> tuple[str, str] | None:
        """Why another call cannot be taken, as (reason, message). `reach`: how many others there
        is a connection to, and how many members there are."""
        if strong and len(self._ids) >= self._most:
            what = f"{len(self._ids)} strong calls wait for a stable answer"
        elif tentative >= TENTATIVE_MAX:
            what = f"{tentative} requests wait to be committed"
        else:
            return None
        connected, members = reach()
        if connected + 1 <= members // 2:
            reached = f"this replica reaches {connected} of {members - 1} others: no majority"
            return "no_majority", f"{what}, and {reached}. Ask another one, or try again later"
        return "busy", f"{what}: try again later"
