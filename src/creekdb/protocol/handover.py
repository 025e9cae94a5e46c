"""What one that was removed hands over: requests that perhaps nobody else has.

It may have issued some, and answered, before it heard that it is no member any more, and what it
cast then came after the others knew. They are as good as any: so the members take them from one who
was removed, and tell it what they have received. It sends them again until a majority has them.

So it does with all that is not committed, whoever issued it: its own requests may come after those
of another one, and that one may be gone.
"""

from collections.abc import Iterable

from creekdb.protocol.dots import Dot, Dots
from creekdb.protocol.effects import Send
from creekdb.protocol.messages import Pulled, Summary
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.request import Request
from creekdb.protocol.settings import Settings


class Handover:
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._received: dict[int, Dots] = {}
        """By each member, as it said last."""

    def on_summary(self, message: Summary, sender: int) -> None:
        self._received[sender] = message.received

    def send(self, requests: Iterable[Request], settings: Settings) -> None:
        """Of these, what is missing in a majority: some at a time, the earliest first."""
        missing = [each for each in requests if not self._is_kept(each.id, settings)]
        if missing:
            missing.sort(key=lambda each: each.key)
            message = Pulled(tuple(missing[: settings.pull_limit]))
            self._outbox.sends.append(Send(settings.members, message))

    def is_over(self, requests: Iterable[Request], settings: Settings) -> bool:
        return all(self._is_kept(each.id, settings) for each in requests)

    def _is_kept(self, id: Dot, settings: Settings) -> bool:
        members = settings.members
        kept = sum(id in self._received[each] for each in members if each in self._received)
        return kept >= settings.majority
