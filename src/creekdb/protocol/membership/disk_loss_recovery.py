"""Recovery of a replica with an empty disk: it abstains until participation is safe.

The replica may be new, like all the others. Or it lost its disk, and with it its promises, its
votes and the event numbers that it used. The two cases are indistinguishable, so both start the
same way. The replica queries every other member for its state and for a promise of a ballot of its
own. Until all members have responded it neither promises, votes nor leads, sends no heartbeat, and
issues no request.

Why that is sufficient, provided that no other member has lost state:

- Promises: the owner of a ballot promises it first, so its response contains it. The new ballot of
  this replica is above all reported ballots, and the replica promises it. A ballot of its own that
  no other member promised cannot have had any effect.
- Votes: their ballots are below the new ballot, and no member that has responded votes in them any
  more. So a value that may have been decided in them was accepted by a member that responded. Its
  response contains the value, and this replica accepts it too. A leader that prepares receives the
  value from this replica, as before the loss. Before it joins, the replica learns all decisions.
  Of a fast quorum that decided, all members but this one report the value, by first votes at least.
- Requests and event numbers: a request that was sent reached a member or was lost. The replica
  joins once it has every request that any member has received, and continues from the last event
  number. An earlier number that no member knows belongs to a lost request. A no-op takes its place,
  because later requests would be held back for ever.

The driver must ensure that no message arrives that a recovering replica sent before the loss.
Members that are recovering too have no state to report; if all are, the cluster is new.

A replica that is added to a running cluster is not new in this sense. From the start, its disk
holds the promise of `JOINED_BALLOT`, and the replica participates once it is admitted. If that
promise is missing, the disk was lost, and the replica never joins, because the members have
changed.
"""

from collections.abc import Iterable
from typing import Final

from creekdb.protocol.ids.version_vector import DotSet
from creekdb.protocol.messages import AcceptedValue, Ballot, RecoveryQuery, RecoveryResponse
from creekdb.protocol.shared_variables import SharedVariables

JOINED_BALLOT: Final = Ballot(0, 1)
"""Sentinel ballot of a member that has seen no real ballot; sorts after NO_BALLOT and before every
real ballot."""


class DiskLossRecovery:
    def __init__(self, shared: SharedVariables) -> None:
        self._shared = shared
        self._peers = shared.peers
        """Members that must respond. If the members change, this replica cannot join."""
        self._ballot = Ballot(1, shared.index)
        self._responses: dict[int, RecoveryResponse] = {}
        self._sent_at_ticks: int | None = None
        self._delivered = 0

    def tick(self, delivered: int) -> None:
        """`delivered`: first instance with neither a decision nor a checkpoint here."""
        shared, sent_at = self._shared, self._sent_at_ticks
        self._delivered = delivered
        if sent_at is None or shared.ticks - sent_at >= shared.settings.retry_ticks:
            self._send_query()

    def on_response(self, message: RecoveryResponse, sender: int) -> None:
        if message.ballot != self._ballot:
            return
        if message.promised > self._ballot:
            # Promises of the old ballot are not sufficient.
            self._ballot = Ballot(message.promised.round + 1, self._shared.index)
            self._responses = {
                each: response
                for each, response in self._responses.items()
                if response.is_recovering
            }
            self._send_query()
        else:
            self._responses[sender] = message

    def awaited_members(self) -> tuple[int, ...]:
        """Return the members that have not responded yet."""
        return tuple(peer for peer in self._peers if peer not in self._responses)

    def is_complete(self, first_undecided: int, received: DotSet) -> bool:
        """True if all members have responded and this replica has the reported state."""
        if self.awaited_members():
            return False
        for response in self._responses.values():
            if response.decided > first_undecided or not received.covers(response.received):
                return False
        return True

    def promised(self) -> Ballot:
        """Return the ballot that this replica promises when it joins."""
        is_voter = self._shared.index in self._shared.settings.voters
        return self._ballot if is_voter and not self.is_new_cluster() else JOINED_BALLOT

    def is_new_cluster(self) -> bool:
        """True if all other members started with an empty disk too."""
        return all(response.is_recovering for response in self._responses.values())

    def accepted(self, undecided: int) -> Iterable[AcceptedValue]:
        """Return the latest reported vote of each kind in each instance from `undecided` on."""
        latest: dict[int, AcceptedValue] = {}
        for response in self._responses.values():
            for value in response.accepted:
                known = latest.get(value.instance)
                is_undecided = value.true_instance >= undecided
                if is_undecided and (known is None or known.ballot < value.ballot):
                    latest[value.instance] = value
        return latest.values()

    def _send_query(self) -> None:
        self._sent_at_ticks = self._shared.ticks
        query = RecoveryQuery(self._ballot, self._delivered)
        self._shared.outbox.send(self.awaited_members(), query)
