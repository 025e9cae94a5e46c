"""The rule "durable before sent": which outputs of a replica may leave it, and when.

Every driver offers each batch of effects to one `ReleaseRule`, after it has appended the records
of the batch to its journal. The rule returns the messages and responses that may leave now, and
holds the others until a longer prefix of the journal is durable.

Rule 1: An output leaves once all records appended before it are durable. Outputs leave in the
order in which they were emitted: none overtakes an output that is held. The rules below are the
only exceptions.

Rule 2: A proposal (`Accept`) leaves once the ballot of this replica is durable. A leader that lost
its ballot could propose another batch in it. The ballot is usually durable long before, because
others promised it. If one acceptor is a majority, however, the replica leads at once. Each acceptor
has the requests that a proposal names on its own disk before it votes. A proposal stays with
requests (`Cast`) that are sent in the same batch: without them no acceptor can vote. A proposal
that names a request of this replica also waits for the record of that request. After a crash, a
later request may reuse the event number of a lost one, and acceptors would vote for that instead.

Rule 3: A response does not wait for `Decided` records that no other record follows. The acceptors
whose votes decided the instance have the batch on disk, and the vote of this replica is an earlier
record. `Progress`, which lets peers discard the decision, does wait. A `Decided` that another
record follows is not skipped: on disk without the decision that changed the members, a ballot
would count for the old members.

Rule 4: With `responds_before_durable`, tentative responses leave at once. A crash may then lose a
request that has a tentative response, and no other.

Rule 5: While the disk fails, nothing leaves but responses whose records are durable, and responses
to reads. Reads have negative event numbers and no records. They wait, too, while a request issued
here is volatile, because they may return it: such a request may be lost, and no client may have
seen it. Requests of other replicas are durable there. The order in which a read counts them may
rest on a vote that a crash loses, as that of any tentative response may change.

Rule 6: An encoded snapshot leaves once the records before the point in time that it shows are
durable. It overtakes no held output.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from creekdb.protocol.checkpoint.stream import EncodedSnapshot
from creekdb.protocol.effects import Effects, Response, ResponseKind, Send
from creekdb.protocol.messages import Accept, Cast, Decided, Prepare, Received, Record
from creekdb.protocol.request import Batch


class _HeldOutput:
    __slots__ = ("position", "respond", "send", "snapshot")

    def __init__(
        self,
        position: int,
        send: Sequence[Send],
        respond: Sequence[Response],
        snapshot: EncodedSnapshot | None = None,
    ) -> None:
        self.position = position
        """Journal position that must be durable before the output leaves."""
        self.send = send
        self.respond = respond
        self.snapshot = snapshot


class _OwnRequests(NamedTuple):
    """Requests of this replica in one batch of records, and the journal position after it."""

    first_event: int
    last_event: int
    position: int


class ReleaseRule:
    """Outputs of one incarnation of a replica that wait for its journal.

    Journal positions count records. A checkpoint among the records counts as one record.
    """

    def __init__(
        self, replica: int, durable_position: int, responds_before_durable: bool = False
    ) -> None:
        """Start with an empty queue and a journal that is durable up to its end."""
        self._replica = replica
        self._responds_before_durable = responds_before_durable
        self._held: deque[_HeldOutput] = deque()
        self.end_position = durable_position
        """Journal position after the last record."""
        self._response_position = durable_position
        """Journal position that responses wait for."""
        self._ballot_position = 0
        """Upper bound of the journal position after the last ballot of this replica."""
        self._own_requests: deque[_OwnRequests] = deque()
        """Requests of this replica whose records may be volatile, in ascending order."""
        self._held_proposals: deque[tuple[int, Send]] = deque()
        """Proposals that name such requests, each with the position after their records."""
        self._released_position = durable_position
        """Journal position up to which all outputs have left."""
        self._has_unjournaled_request = False
        """True if a request was issued here since the last batch."""
        self._issued_position = durable_position
        """Journal position after the last record of a request that was issued here."""

    @property
    def held_count(self) -> int:
        """Number of outputs that wait for the disk."""
        return len(self._held) + len(self._held_proposals)

    @property
    def has_volatile_request(self) -> bool:
        """True if a request issued here is not durable and must not be visible before it is."""
        if self._responds_before_durable:
            return False
        return self._has_unjournaled_request or self._issued_position > self._released_position

    def record_issue(self) -> None:
        """Record that a request with records was issued here. Its batch follows."""
        self._has_unjournaled_request = True

    def clear(self) -> None:
        """Drop all held outputs."""
        self._held.clear()
        self._held_proposals.clear()

    # --- offering -----------------------------------------------------------------------------

    def offer(
        self, effects: Effects, durable: int, is_failing: bool
    ) -> tuple[Sequence[Send], Sequence[Response]]:
        """Return the messages and responses of a batch that may leave now, and hold the others.

        The records of the batch have been appended to the journal. The journal is durable up to
        `durable`. `is_failing` is True if the last write failed.
        """
        if effects.checkpoints:
            self.end_position += len(effects.persist) + len(effects.checkpoints)
            self._response_position = self.end_position
        elif effects.persist:
            count = _required_count(effects.persist)
            if count:
                self._response_position = self.end_position + count
            self.end_position += len(effects.persist)
        if self._has_unjournaled_request:
            self._has_unjournaled_request, self._issued_position = False, self.end_position
        if effects.persist and durable < self.end_position:
            self._add_own_requests(effects.persist)
        send, respond = effects.send, effects.respond
        if not send and not respond:
            return send, respond
        # A held output may be durable before `release` is called. Nothing overtakes it.
        if not self._held and self.end_position <= durable:
            self._released_position = self.end_position
            return send, respond
        return self._hold(send, respond, durable, is_failing)

    def offer_snapshot(self, snapshot: EncodedSnapshot, position: int, durable: int) -> bool:
        """Return True if the snapshot may leave now, and hold it otherwise.

        `position` is the end of the journal when the replica emitted the snapshot.
        """
        if not self._held and position <= durable:
            return True
        self._held.append(_HeldOutput(position, (), (), snapshot))
        return False

    def _hold(
        self, send: Sequence[Send], respond: Sequence[Response], durable: int, is_failing: bool
    ) -> tuple[Sequence[Send], Sequence[Response]]:
        early_send: Sequence[Send] = ()
        early_respond: Sequence[Response] = ()
        if self._may_propose(send, durable) and not is_failing:
            early_send = self._take_proposals(send, durable)
            send = [each for each in send if type(each.message) is not Accept]
        if respond:
            if not self._held and self._response_position <= durable:
                early_respond, respond = respond, ()
            elif self._responds_before_durable:
                early_respond = [each for each in respond if each.kind is ResponseKind.TENTATIVE]
                respond = [each for each in respond if each.kind is not ResponseKind.TENTATIVE]
            elif is_failing and not self.has_volatile_request:
                early_respond = [each for each in respond if each.id.event < 0]
                respond = [each for each in respond if each.id.event > 0]
        if respond:
            self._held.append(_HeldOutput(self._response_position, (), respond))
        if send:
            self._held.append(_HeldOutput(self.end_position, send, ()))
        return early_send, early_respond

    def _may_propose(self, sends: Sequence[Send], durable: int) -> bool:
        """Return True if the proposals in `sends` need not wait. Track the last ballot."""
        has_proposal = has_cast = False
        for each in sends:
            kind = type(each.message)
            if kind is Accept:
                has_proposal = True
            elif kind is Cast:
                has_cast = True
            elif kind is Prepare:
                self._ballot_position = self.end_position
        return has_proposal and not has_cast and self._ballot_position <= durable

    def _add_own_requests(self, records: Sequence[Record]) -> None:
        events = [
            record.request.id.event
            for record in records
            if type(record) is Received and record.request.id.replica == self._replica
        ]
        if events:
            self._own_requests.append(_OwnRequests(events[0], events[-1], self.end_position))

    def _take_proposals(self, sends: Sequence[Send], durable: int) -> list[Send]:
        """Return the proposals that may leave now, and hold those that name volatile requests of
        this replica."""
        proposals: list[Send] = []
        for each in sends:
            if type(each.message) is Accept:
                position = self._position_after(each.message.batch)
                if position <= durable:
                    proposals.append(each)
                else:
                    self._held_proposals.append((position, each))
        return proposals

    def _position_after(self, batch: Batch) -> int:
        """Return the journal position after the requests of this replica that a batch names, or 0
        if all are durable."""
        if not self._own_requests:
            return 0
        event = max([id.event for id in batch if id.replica == self._replica], default=0)
        for requests in self._own_requests:
            if event <= requests.last_event:
                return requests.position if event >= requests.first_event else 0
        return 0

    # --- releasing ----------------------------------------------------------------------------

    def release(
        self, durable: int
    ) -> tuple[Sequence[Send], Sequence[Response], Sequence[EncodedSnapshot]]:
        """Return the held outputs that may leave now that the journal is durable up to here."""
        held = self._held
        self._released_position = durable
        own, proposals = self._own_requests, self._held_proposals
        while own and own[0].position <= durable:
            own.popleft()
        send: list[Send] = []
        respond: list[Response] = []
        snapshots: list[EncodedSnapshot] = []
        while held and held[0].position <= durable:
            output = held.popleft()
            send += output.send
            respond += output.respond
            if output.snapshot is not None:
                snapshots.append(output.snapshot)
        while proposals and proposals[0][0] <= durable:
            send.append(proposals.popleft()[1])
        return send, respond, snapshots

    def release_reads(self) -> Sequence[Response]:
        """Return the held responses to reads that may leave now that the disk fails."""
        reads: list[Response] = []
        if not self.has_volatile_request:
            for output in self._held:
                reads += [each for each in output.respond if each.id.event < 0]
                output.respond = [each for each in output.respond if each.id.event > 0]
        return reads


def _required_count(records: Sequence[Record]) -> int:
    """Return the length of `records` without the trailing `Decided` records."""
    count = len(records)
    while count and type(records[count - 1]) is Decided:
        count -= 1
    return count
