"""Detection of a data directory that was replaced by an older copy of itself.

Such a replica has lost promises, votes and event numbers like one with an empty disk, but its
journal looks complete. No replica can detect that alone. Therefore replicas exchange *evidence*
whenever they connect, before any other message:

- The *history* of the own data directory: an identifier, and its last starts. Each start has a
  number, a random nonce, and the state that the journal held then. Of earlier starts, the history
  has a digest each, so that a copy does not hide behind its own starts.
- *Sightings*: for every other replica, the latest history that it has shown, and the highest state
  that it has reported since. Sightings are durable, and replicas adopt later ones of each other.
- Digests of the last decisions.

Rule 1: A replica has lost data if there is a sighting of it that its history does not continue. The
history lacks the last sighted start, or the journal held less at the next start than was sighted,
or the directory had been replaced by another one before.

Rule 2: The replica that lost data stops. A replica that has the sighting rejects it and continues.
Only the history decides which of the two lost data. After a rollback, a replica soon has issued as
many requests as before.

Rule 3: A start with an empty journal continues every sighting. Such a replica abstains until it has
recovered (`disk_loss_recovery`). States that it reported before its disk was lost are no evidence
against later starts.

Rule 4: A replica that was rolled back may act before it meets a replica with the sighting. Then two
other replicas may hold different decisions of one instance, or different requests with the same
identifiers. They reject each other. Neither has lost data, so neither stops.

Rule 5: A replica drops its sighting of a removed replica once every member has delivered the
removal. From then on no member counts a vote of the removed replica, and its number is never used
again. A hello has limited space, and a cluster may replace any number of replicas over time.

Everything in a sighting was reported by the replica itself, after its own disk held it. A request
that a third replica forwards is no evidence, because it may belong to a later start.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Final, NamedTuple, Protocol
from zlib import crc32

import msgspec

from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.messages import Ballot
from creekdb.protocol.request import Batch

STARTS_KEPT_MAX: Final = 32
"""Upper bound for the starts in a history."""
EARLIER_STARTS_MAX: Final = 1024
"""Upper bound for the earlier starts of which a history has digests. A hello has limited space."""
DIGEST_BYTES: Final = 2
DIRECTORIES_KEPT_MAX: Final = 32
"""Upper bound for the replaced directories in a sighting."""
DECISIONS_SHOWN_MAX: Final = 256
"""Upper bound for the decisions of which evidence has digests."""

_encode = msgspec.msgpack.Encoder().encode


class ReportedState(msgspec.Struct, frozen=True, array_like=True):
    """State of a data directory. No value ever decreases."""

    last_event: int
    """Event number of the last request that the replica has issued."""
    delivered: int
    """The replica has delivered every instance below this one."""
    promised: Ballot = NO_BALLOT
    """Highest ballot that the replica has promised."""

    def covers(self, other: "ReportedState") -> bool:
        return self.join(other) == self

    def join(self, other: "ReportedState") -> "ReportedState":
        """Return the higher one of both values each."""
        return ReportedState(
            max(self.last_event, other.last_event),
            max(self.delivered, other.delivered),
            max(self.promised, other.promised),
        )

    def describe(self) -> str:
        return f"{self.last_event} calls, {self.delivered} decisions and ballot {self.promised}"


class ReplicaStart(msgspec.Struct, frozen=True, array_like=True):
    """One start of a replica from its data directory."""

    number: int
    """Number of starts from this directory, including this one."""
    nonce: int
    """Random number that distinguishes starts with the same number."""
    is_recovering: bool
    """True if the journal held no promise."""
    state: ReportedState
    """State that the journal held."""


class DirectoryHistory(msgspec.Struct, frozen=True, array_like=True):
    """Identity of a data directory, and the last starts from it, in order."""

    directory: int
    starts: Annotated[tuple[ReplicaStart, ...], msgspec.Meta(min_length=1)]
    earlier: bytes = b""
    """Digests of the starts directly before these, in order. Earlier versions have none."""

    @property
    def last(self) -> ReplicaStart:
        return self.starts[-1]

    def contradicts(self, start: ReplicaStart) -> bool:
        """True if the history has another start with this number."""
        missing = self.starts[0].number - start.number
        if missing <= 0:
            return any(
                each.number == start.number and each.nonce != start.nonce for each in self.starts
            )
        at = len(self.earlier) - DIGEST_BYTES * missing
        return at >= 0 and self.earlier[at : at + DIGEST_BYTES] != _start_digest(start)


def add_start(
    history: DirectoryHistory | None, nonce: int, is_recovering: bool, state: ReportedState
) -> DirectoryHistory:
    """Return the history with one more start. The first nonce of a directory identifies it."""
    if history is None:
        return DirectoryHistory(nonce, (ReplicaStart(1, nonce, is_recovering, state),))
    start = ReplicaStart(history.last.number + 1, nonce, is_recovering, state)
    starts = (*history.starts, start)
    dropped = b"".join(map(_start_digest, starts[:-STARTS_KEPT_MAX]))
    earlier = (history.earlier + dropped)[-DIGEST_BYTES * EARLIER_STARTS_MAX :]
    return DirectoryHistory(history.directory, starts[-STARTS_KEPT_MAX:], earlier)


def _start_digest(start: ReplicaStart) -> bytes:
    return (start.nonce % 256**DIGEST_BYTES).to_bytes(DIGEST_BYTES, "big")


class Sighting(msgspec.Struct, frozen=True, array_like=True):
    """Latest history that a replica has shown, and the highest state that it has reported."""

    replica: int
    history: DirectoryHistory
    state: ReportedState | None
    """None if reports from before the loss of a disk cannot be told from later ones."""
    replaced: tuple[int, ...] = ()
    """Directories that the replica used before this one."""


class StateEvidence(msgspec.Struct, frozen=True, array_like=True):
    """Evidence that a replica sends when it connects to another one."""

    history: DirectoryHistory
    sightings: tuple[Sighting, ...] = ()
    first_decision: int = 0
    """Instance of the first digest."""
    decision_digests: tuple[int, ...] = ()


class StateView(Protocol):
    """State of the local replica that is evidence."""

    def own_state(self) -> ReportedState: ...

    def reported_state(self, replica: int) -> ReportedState:
        """Return the state that the other replica has reported to this one."""

    def last_decisions(self, limit: int) -> tuple[int, tuple[Batch, ...]]:
        """Return the last decisions, at most `limit`, and the instance of the first."""

    def removed_replicas(self) -> tuple[int, ...]:
        """Return the removed replicas. Empty until all members have delivered the last change."""


class SharedIds(NamedTuple):
    """Identifiers that a replica has used twice: its event numbers from `first` to `last`."""

    replica: int
    first: int
    last: int


class PeerVerdict(NamedTuple):
    """Reasons against a peer. All are None for a peer whose evidence is consistent."""

    own_loss: str | None = None
    """Data that this replica has lost, according to the peer."""
    peer_loss: str | None = None
    """Data that the peer has lost, according to this replica."""
    conflicting_instance: int | None = None
    """First instance that the two replicas have decided differently."""
    conflicting_ids: SharedIds | None = None
    """Identifiers under which the two replicas hold different requests."""


def lost_data(sighting: Sighting, history: DirectoryHistory) -> str | None:
    """Return what the replica with this history has lost since the sighting, or None."""
    if history.directory in sighting.replaced:
        return "the data directory was used before and replaced since"
    starts: Iterable[ReplicaStart] = history.starts
    if history.directory == sighting.history.directory:
        sighted = sighting.history.last
        if history.last.number < sighted.number or history.contradicts(sighted):
            return f"the data directory does not contain start {sighted.number} of the replica"
        starts = [each for each in starts if each.number > sighted.number]
    following = next(iter(starts), None)
    if following is None or following.is_recovering or sighting.state is None:
        return None
    held, reported = following.state, sighting.state
    if held.covers(reported):
        return None
    return (
        f"at start {following.number} the journal held {held.describe()}, but the replica had "
        f"reported {reported.describe()}"
    )


def find_shared_ids(ours: Sighting, theirs: Sighting) -> SharedIds | None:
    """Return the identifiers that the sighted replica has used twice, or None.

    That requires sightings of which neither continues the other, with requests in both.
    """
    if ours.state is None or theirs.state is None:
        return None
    if ours.history.directory != theirs.history.directory:
        return None
    if lost_data(ours, theirs.history) is None or lost_data(theirs, ours.history) is None:
        return None
    our_starts, their_starts = set(ours.history.starts), set(theirs.history.starts)
    oldest = max(ours.history.starts[0].number, theirs.history.starts[0].number)
    unshared = [each for each in our_starts ^ their_starts if each.number >= oldest]
    first = min(each.state.last_event for each in unshared) + 1
    last = min(ours.state.last_event, theirs.state.last_event)
    return SharedIds(ours.replica, first, last) if first <= last else None


def merge_sightings(ours: Sighting, theirs: Sighting) -> Sighting:
    """Return the later one of two sightings of a replica, or ours if neither is later."""
    our_last, their_last = ours.history.last, theirs.history.last
    if our_last.nonce == their_last.nonce:
        if ours.state is None or theirs.state is None:
            return ours
        return msgspec.structs.replace(ours, state=ours.state.join(theirs.state))
    is_later = ours.history.directory in theirs.replaced or (
        ours.history.directory == theirs.history.directory
        and our_last.number < their_last.number
        and lost_data(ours, theirs.history) is None
    )
    return theirs if is_later else ours


class RollbackDetector:
    """Evidence of one replica, and its judgement of the evidence of others."""

    def __init__(
        self,
        replica: int,
        history: DirectoryHistory,
        sightings: Iterable[Sighting],
        view: StateView,
    ) -> None:
        self._replica = replica
        self.history = history
        self._sightings = {each.replica: each for each in sightings}
        self._view = view

    def sightings(self) -> tuple[Sighting, ...]:
        """Return the sightings, with the states that the other replicas have reported by now."""
        for replica in self._view.removed_replicas():
            self._sightings.pop(replica, None)
        for replica, sighting in self._sightings.items():
            if sighting.state is not None:
                state = sighting.state.join(self._view.reported_state(replica))
                self._sightings[replica] = msgspec.structs.replace(sighting, state=state)
        return tuple(self._sightings.values())

    def evidence(self) -> StateEvidence:
        first, batches = self._view.last_decisions(DECISIONS_SHOWN_MAX)
        return StateEvidence(self.history, self.sightings(), first, tuple(_digests(batches)))

    def judge(self, peer: int, theirs: StateEvidence) -> PeerVerdict:
        """Compare the evidence of a peer with that of this replica."""
        ours = {each.replica: each for each in self.sightings()}
        for sighting in theirs.sightings:
            is_own = sighting.replica == self._replica
            if is_own and (loss := lost_data(sighting, self.history)) is not None:
                return PeerVerdict(own_loss=loss)
        if peer in ours and (loss := lost_data(ours[peer], theirs.history)) is not None:
            return PeerVerdict(peer_loss=loss)
        shared_ids = (
            find_shared_ids(ours[each.replica], each)
            for each in theirs.sightings
            if each.replica in ours
        )
        return PeerVerdict(
            conflicting_instance=self._conflicting_instance(theirs),
            conflicting_ids=next((each for each in shared_ids if each is not None), None),
        )

    def record(self, peer: int, theirs: StateEvidence) -> bool:
        """Record a peer whose evidence is consistent. Return True if a sighting is new."""
        before, removed = self.sightings(), self._view.removed_replicas()
        self._sightings[peer] = self._sight(peer, theirs.history)
        for each in theirs.sightings:
            if each.replica != self._replica and each.replica not in removed:
                known = self._sightings.get(each.replica)
                self._sightings[each.replica] = (
                    each if known is None else merge_sightings(known, each)
                )
        return before != tuple(self._sightings.values())

    def _sight(self, peer: int, history: DirectoryHistory) -> Sighting:
        known, last = self._sightings.get(peer), history.last
        has_reported = self._view.reported_state(peer) != ReportedState(0, 0)
        state = None if last.is_recovering and has_reported else last.state
        if known is None:
            return Sighting(peer, history, state)
        if known.history.last.nonce == last.nonce:
            return known
        replaced = known.replaced
        if known.history.directory != history.directory:
            replaced = (*replaced, known.history.directory)[-DIRECTORIES_KEPT_MAX:]
        return Sighting(peer, history, state, replaced)

    def _conflicting_instance(self, theirs: StateEvidence) -> int | None:
        first, batches = self._view.last_decisions(DECISIONS_SHOWN_MAX)
        ours = dict(enumerate(_digests(batches), first))
        for instance, digest in enumerate(theirs.decision_digests, theirs.first_decision):
            if ours.get(instance, digest) != digest:
                return instance
        return None


def _digests(batches: Iterable[Batch]) -> Iterator[int]:
    return (crc32(_encode(batch)) for batch in batches)
