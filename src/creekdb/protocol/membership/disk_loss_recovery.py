"""A replica that begins with nothing, where others may know it: it takes no part until it is safe.

It may be new, like all the others. Or it lost its disk, and has forgotten what it promised, what it
voted for and which event numbers it used. Nobody can tell which, so both begin the same way: it
asks every other member for what it knows, and for a promise of a ballot of its own. Until all of
them have answered it neither promises, votes nor leads, is not heard of as alive, and issues
nothing.

Why that is enough, when no member but this one has forgotten anything:

- What it promised: a ballot is promised by its owner first, so the owner tells. The ballot that
  this replica begins with is above all that it was told, and it promises that one. Of a ballot of
  its own that nobody else promised, nothing can have come.
- What it voted for: the ballots of its votes are below its own, and whoever has answered votes in
  none of them any more. So what may have been decided in them has been accepted by one of those who
  answered; it tells, and this replica accepts the same. A leader that asks this replica hears of
  it, as it would have before. What is decided already, this replica knows before it begins.
- What it vouched for, and which numbers it used: a request that left has arrived at a member or
  nowhere. It begins once it has all that any of them has received, and counts on from there. A
  number before that which nobody knows belongs to a request that is lost: another one that does
  nothing takes it, for what comes after it would be held back for ever.

A driver must see to it that nothing arrives that was sent before the loss by a replica that begins
anew. Members that begin anew as well have nothing to tell; if all do, the cluster is new.

One that is added to a cluster that runs is not new like all the others. It finds on its disk, from
its first day on, that it has promised nothing yet (`ENTERED`), and takes part when it is let in. If
it does not find that, it lost its disk, and never takes part: the members have been changed.
"""

from collections.abc import Iterable
from typing import Final

from creekdb.protocol.effects import Send
from creekdb.protocol.ids.version_vector import DotSet
from creekdb.protocol.messages import AcceptedValue, Ballot, RecoveryQuery, RecoveryResponse
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.settings import Settings

JOINED_BALLOT: Final = Ballot(0, 1)
"""Promised by who takes part and knows no real ballot: below all of these, above none at all."""


class DiskLossRecovery:
    def __init__(self, index: int, settings: Settings, outbox: Outbox) -> None:
        self._index = index
        self._settings = settings
        self._outbox = outbox
        self._ballot = Ballot(1, index)
        self._responses: dict[int, RecoveryResponse] = {}
        self._sent_at_ticks: int | None = None
        self._ticks = 0
        self._delivered = 0

    def tick(self, ticks: int, delivered: int) -> None:
        """`delivered`: the first instance of which it has neither a decision nor a checkpoint."""
        self._ticks = ticks
        self._delivered = delivered
        if self._sent_at_ticks is None or ticks - self._sent_at_ticks >= self._settings.retry_ticks:
            self._send_query()

    def on_response(self, message: RecoveryResponse, sender: int) -> None:
        if message.ballot != self._ballot:
            return
        if message.promised > self._ballot:
            # What others promised of the old ballot is not enough.
            self._ballot = Ballot(message.promised.round + 1, self._index)
            self._responses = {
                each: told for each, told in self._responses.items() if told.is_recovering
            }
            self._send_query()
        else:
            self._responses[sender] = message

    def awaited_members(self) -> tuple[int, ...]:
        """Members that have not told yet."""
        peers = self._settings.peers(self._index)
        return tuple(peer for peer in peers if peer not in self._responses)

    def is_complete(self, first_undecided: int, received: DotSet) -> bool:
        """Has everybody told, and is here what they told of?"""
        if self.awaited_members():
            return False
        for told in self._responses.values():
            if told.decided > first_undecided or not received.covers(told.received):
                return False
        return True

    def promised(self) -> Ballot:
        """What is to be promised by who takes part from now on."""
        has_a_vote = self._index in self._settings.voters
        return self._ballot if has_a_vote and not self.is_new_cluster() else JOINED_BALLOT

    def is_new_cluster(self) -> bool:
        """Did all others begin with nothing as well? Then the cluster is new."""
        return all(told.is_recovering for told in self._responses.values())

    def accepted(self, undecided: int) -> Iterable[AcceptedValue]:
        """The latest that others have accepted, of instances from `undecided` on."""
        latest: dict[int, AcceptedValue] = {}
        for told in self._responses.values():
            for value in told.accepted:
                known = latest.get(value.instance)
                if value.instance >= undecided and (known is None or known.ballot < value.ballot):
                    latest[value.instance] = value
        return latest.values()

    def _send_query(self) -> None:
        self._sent_at_ticks = self._ticks
        self._outbox.sends.append(
            Send(self.awaited_members(), RecoveryQuery(self._ballot, self._delivered))
        )
