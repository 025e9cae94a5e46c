"""Do the replicas agree? They tell each other digests of the state, each at lengths of `committed`
that others have passed as well, and compare.

Rules it keeps:

- A replica goes on only where a majority of the members may agree with it. As soon as too many
  differ from it, it stops: with three replicas the one that differs from two; and with two, both.
- While some who could tell are silent, it waits for them, but not for long: then it stops, too.
- Who stops has told its own state before: others may have to stop as well, and hear of it from
  nobody else. If what the state rests on does not get to the disk, it does not wait for long.
- Who stops says which operations were carried out since the states were last the same.
- Nothing is told of a state before what it rests on is durable. A decision may rest on a vote of
  this very replica: with the vote forgotten in a crash, others could decide otherwise, and who was
  told too early would take that for a state that differs.

What is kept is bounded: of one who is further away than that, nothing is known until it is closer.
"""

from collections import Counter, deque
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from creekdb.errors import NotDeterministic
from creekdb.protocol.effects import Digest
from creekdb.protocol.request import NOOP, Request
from creekdb.wire.deduplication import describe_call, unwrap_call
from creekdb.wire.messages import StateDigests

DIGEST_INTERVAL_REQUESTS: Final = 64
"""Requests between two digests that every replica has."""
DIGESTS_KEPT_MAX: Final = 4096
DIGESTS_PER_MESSAGE_MAX: Final = 512
"""Digests in one message."""
REQUESTS_KEPT_MAX: Final = 4096
REQUESTS_LISTED_MAX: Final = 20
DISAGREEMENT_TIMEOUT_S: Final = 3.0
"""How long a replica waits for who could tell whether it is right."""


class PeerComparison(msgspec.Struct):
    """What is known of a peer."""

    same_at: int = -1
    """The greatest length at which it had our digest."""
    differs_at: int | None = None
    """The least length since then at which it had another."""
    differing_digest: int = 0
    """What it had there."""


class DivergenceDetector:
    def __init__(self, replica: int, members: tuple[int, ...]) -> None:
        self._replica = replica
        self._majority = len(members) // 2 + 1
        self._member_count = len(members)
        self.comparisons = {peer: PeerComparison() for peer in members if peer != replica}
        self._own_digests: dict[int, int] = {}
        self._early_peer_digests: dict[int, dict[int, int]] = {
            peer: {} for peer in self.comparisons
        }
        """What peers told of lengths where we are not yet."""
        self._newest = (0, 0)
        self._unsent: deque[tuple[int, int, int]] = deque(maxlen=DIGESTS_KEPT_MAX)
        """Each with the position of the journal that must be durable before it is told."""
        self._last_sent = (0, 0)
        """The newest that was."""
        self._recent_requests: deque[tuple[int, Request]] = deque(maxlen=REQUESTS_KEPT_MAX)
        self._disagreement_since_s: float | None = None

    def reconfigure(self, members: tuple[int, ...]) -> None:
        """The members are others from now on."""
        self._majority, self._member_count = len(members) // 2 + 1, len(members)
        peers = [peer for peer in members if peer != self._replica]
        self.comparisons = {peer: self.comparisons.get(peer, PeerComparison()) for peer in peers}
        self._early_peer_digests = {peer: self._early_peer_digests.get(peer, {}) for peer in peers}

    # --- inputs -------------------------------------------------------------------------------

    def record(self, digest: Digest, position: int) -> None:
        """One of our own; it rests on what stands before this position of the journal."""
        length, value = digest.length, digest.value
        first = length - len(digest.requests) + 1
        self._recent_requests.extend(enumerate(digest.requests, first))
        self._newest = length, value
        self._own_digests[length] = value
        if len(self._own_digests) > DIGESTS_KEPT_MAX:
            del self._own_digests[next(iter(self._own_digests))]
        self._unsent.append((position, length, value))
        for peer, theirs in self._early_peer_digests.items():
            told = theirs.pop(length, None)
            if told is not None:
                self._compare(peer, length, told)

    def receive(self, told: StateDigests, peer: int) -> None:
        theirs = self._early_peer_digests.get(peer)
        if theirs is None:
            return  # it is no member
        for length, value in told.digests[:DIGESTS_PER_MESSAGE_MAX]:
            if length in self._own_digests:
                self._compare(peer, length, value)
            elif length > self._newest[0]:
                theirs[length] = value
                if len(theirs) > DIGESTS_KEPT_MAX:
                    del theirs[next(iter(theirs))]

    def take_message(self, durable: int) -> StateDigests:
        """What is to be told now, where the journal is durable up to this position. The newest is
        told again and again, for who was away."""
        told, untold = set[tuple[int, int]](), self._unsent
        while untold and untold[0][0] <= durable:
            _, length, value = untold.popleft()
            self._last_sent = length, value
            if length % DIGEST_INTERVAL_REQUESTS == 0:
                told.add(self._last_sent)
        return StateDigests(tuple(sorted({*told, self._last_sent})[-DIGESTS_PER_MESSAGE_MAX:]))

    # --- what follows -------------------------------------------------------------------------

    def verdict(self, now: float) -> NotDeterministic | None:
        """Why this replica must stop, if it must. To be asked from time to time."""
        differ = [peer for peer, found in self.comparisons.items() if found.differs_at is not None]
        if not differ:
            self._disagreement_since_s = None
            return None
        first = min(self._differs_at(peer) for peer in differ)
        agree = 1 + sum(
            found.differs_at is None and found.same_at >= first
            for found in self.comparisons.values()
        )
        if agree >= self._majority:
            return None
        if self._member_count - len(differ) >= self._majority or self._last_sent[0] < first:
            if self._disagreement_since_s is None:
                self._disagreement_since_s = now
            if now - self._disagreement_since_s < DISAGREEMENT_TIMEOUT_S:
                return None
        return NotDeterministic(self._explain_divergence(min(differ, key=self._differs_at)))

    def differing_peers(self) -> list[int]:
        """Peers whose state is another one than ours."""
        return [peer for peer, found in self.comparisons.items() if found.differs_at is not None]

    def status(self) -> dict[str, Any]:
        """The greatest length at which a peer had our digest, that digest, and with whom."""
        agreed = max((found.same_at for found in self.comparisons.values()), default=-1)
        digest = self._own_digests.get(agreed)
        return {
            "agreed": max(agreed, 0),
            "digest": None if digest is None else _format_digest(digest),
            "with": {str(peer): max(found.same_at, 0) for peer, found in self.comparisons.items()},
            "differs_from": self.differing_peers(),
        }

    # --- inside -------------------------------------------------------------------------------

    def _compare(self, peer: int, length: int, theirs: int) -> None:
        found = self.comparisons[peer]
        if self._own_digests[length] != theirs:
            if found.differs_at is None and length >= found.same_at:
                found.differs_at, found.differing_digest = length, theirs
        elif length > found.same_at:
            found.same_at = length
            if found.differs_at is not None and length >= found.differs_at:
                found.differs_at = None

    def _differs_at(self, peer: int) -> int:
        length = self.comparisons[peer].differs_at
        assert length is not None
        return length

    def _explain_divergence(self, peer: int) -> str:
        length, since = self._differs_at(peer), max(self.comparisons[peer].same_at, 0)
        ours, theirs = self._own_digests.get(length, 0), self.comparisons[peer].differing_digest
        between = [
            (index, request)
            for index, request in self._recent_requests
            if since < index <= length and request.operation != NOOP
        ]
        return (
            f"after {length} requests the state of replica {self._replica} is "
            f"{_format_digest(ours)}, and "
            f"that of replica {peer} is {_format_digest(theirs)}; after {since} they were the "
            "same, and no "
            "majority is known to agree with us. One of the operations in between is not "
            f"deterministic, or not the same on both: {format_requests(between)}. 'creek "
            "simulate --debug' "
            "finds those that are not deterministic. This replica stops; its data is kept. Mend "
            "the operation on every replica; then move this replica's folder away, if others go "
            "on, and it gets their state when it is started again"
        )


def format_requests(requests: Iterable[tuple[int, Request]]) -> str:
    """Which operations, how often, and the last of them one by one."""
    found = [(index, request.operation) for index, request in requests]
    if not found:
        return "none that is still remembered"
    often = Counter(unwrap_call(operation).name for _, operation in found)
    names = ", ".join(f"{count} × {name}" for name, count in sorted(often.items()))
    last = ", ".join(
        f"{index}: {describe_call(operation)}" for index, operation in found[-REQUESTS_LISTED_MAX:]
    )
    return f"{names}; as number {last}"


def _format_digest(digest: int) -> str:
    return f"{digest:016x}"
