"""Divergence detection: replicas exchange digests of their states and compare them.

A digest belongs to a length of `committed` that other replicas have passed as well.

Rules:

- A replica continues only while a majority of the members may agree with it. It stops as soon as
  too many differ: with three replicas, the one that differs from two; with two replicas, both.
- While the digests of some members are missing, the replica waits for a limited time, and stops
  then.
- A replica sends its own digest before it stops. Other replicas may have to stop as well, and no
  other source informs them. If the records behind its state do not become durable, the wait is
  limited, too.
- A replica that stops lists the operations that were executed since the states last agreed.
- A digest is sent only after the records behind it are durable. A decision may depend on a vote of
  this replica. If a crash erased the vote, the others could decide differently. A peer with the
  early digest would mistake that for divergence.

Memory is bounded. A peer that is too far away is not compared until it is closer.
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
"""Number of requests between two digests that every replica computes."""
DIGESTS_KEPT_MAX: Final = 4096
DIGESTS_PER_MESSAGE_MAX: Final = 512
"""Upper bound for the digests in one message."""
REQUESTS_KEPT_MAX: Final = 4096
REQUESTS_LISTED_MAX: Final = 20
DISAGREEMENT_TIMEOUT_S: Final = 3.0
"""Time that a replica waits for the digests of silent peers, in seconds."""


class PeerComparison(msgspec.Struct):
    """Result of the comparisons with one peer."""

    same_at: int = -1
    """Greatest length at which the peer had the same digest."""
    differs_at: int | None = None
    """Least length since then at which the peer had another digest."""
    differing_digest: int = 0
    """Digest of the peer at that length."""
    early_digests: dict[int, int] = {}
    """Digests of the peer for lengths that this replica has not reached."""


class DivergenceDetector:
    """Digests of this replica and its peers, and the verdict on this replica."""

    def __init__(self, replica: int, members: tuple[int, ...]) -> None:
        self._replica = replica
        self.comparisons: dict[int, PeerComparison] = {}
        self._own_digests: dict[int, int] = {}
        self._newest_length = 0
        self._unsent: deque[tuple[int, int, int]] = deque(maxlen=DIGESTS_KEPT_MAX)
        """Unsent digests, each with the journal position that must be durable first."""
        self._last_sent = (0, 0)
        """Newest digest that was sent, with its length."""
        self._recent_requests: deque[tuple[int, Request]] = deque(maxlen=REQUESTS_KEPT_MAX)
        self._disagreement_since_s: float | None = None
        self.reconfigure(members)

    def reconfigure(self, members: tuple[int, ...]) -> None:
        """Replace the members."""
        self._majority, self._member_count = len(members) // 2 + 1, len(members)
        peers = [peer for peer in members if peer != self._replica]
        self.comparisons = {peer: self.comparisons.get(peer, PeerComparison()) for peer in peers}

    # --- inputs -------------------------------------------------------------------------------

    def record(self, digest: Digest, position: int) -> None:
        """Record a digest of this replica. It depends on the records before `position`."""
        length, value = digest.length, digest.value
        first = length - len(digest.requests) + 1
        self._recent_requests.extend(enumerate(digest.requests, first))
        self._newest_length = length
        self._own_digests[length] = value
        if len(self._own_digests) > DIGESTS_KEPT_MAX:
            del self._own_digests[next(iter(self._own_digests))]
        self._unsent.append((position, length, value))
        for comparison in self.comparisons.values():
            early = comparison.early_digests.pop(length, None)
            if early is not None:
                self._compare(comparison, length, early)

    def receive(self, message: StateDigests, peer: int) -> None:
        comparison = self.comparisons.get(peer)
        if comparison is None:
            return  # not a member
        early = comparison.early_digests
        for length, value in message.digests[:DIGESTS_PER_MESSAGE_MAX]:
            if length in self._own_digests:
                self._compare(comparison, length, value)
            elif length > self._newest_length:
                early[length] = value
                if len(early) > DIGESTS_KEPT_MAX:
                    del early[next(iter(early))]

    def take_message(self, durable: int) -> StateDigests:
        """Return the digests to send now, given the durable position of the journal.

        Every message repeats the newest digest, for peers that were disconnected.
        """
        due, unsent = set[tuple[int, int]](), self._unsent
        while unsent and unsent[0][0] <= durable:
            _, length, value = unsent.popleft()
            self._last_sent = length, value
            if length % DIGEST_INTERVAL_REQUESTS == 0:
                due.add(self._last_sent)
        return StateDigests(tuple(sorted({*due, self._last_sent})[-DIGESTS_PER_MESSAGE_MAX:]))

    # --- outputs ------------------------------------------------------------------------------

    def verdict(self, now_s: float) -> NotDeterministic | None:
        """Return the error that this replica must stop with, or None. Call this periodically."""
        differ = self.differing_peers()
        if not differ:
            self._disagreement_since_s = None
            return None
        first = min(self._differs_at(peer) for peer in differ)
        agree = 1 + sum(
            comparison.differs_at is None and comparison.same_at >= first
            for comparison in self.comparisons.values()
        )
        if agree >= self._majority:
            return None
        if self._member_count - len(differ) >= self._majority or self._last_sent[0] < first:
            if self._disagreement_since_s is None:
                self._disagreement_since_s = now_s
            if now_s - self._disagreement_since_s < DISAGREEMENT_TIMEOUT_S:
                return None
        return NotDeterministic(self._explain_divergence(min(differ, key=self._differs_at)))

    def differing_peers(self) -> list[int]:
        """Return the peers whose state differs from the state of this replica."""
        return [
            peer
            for peer, comparison in self.comparisons.items()
            if comparison.differs_at is not None
        ]

    def status(self) -> dict[str, Any]:
        """Return the greatest agreed length, its digest, and the agreed length of each peer."""
        agreed = max((comparison.same_at for comparison in self.comparisons.values()), default=-1)
        digest = self._own_digests.get(agreed)
        return {
            "agreed": max(agreed, 0),
            "digest": None if digest is None else _format_digest(digest),
            "with": {
                str(peer): max(comparison.same_at, 0)
                for peer, comparison in self.comparisons.items()
            },
            "differs_from": self.differing_peers(),
        }

    # --- comparison ---------------------------------------------------------------------------

    def _compare(self, comparison: PeerComparison, length: int, theirs: int) -> None:
        if self._own_digests[length] != theirs:
            if comparison.differs_at is None and length >= comparison.same_at:
                comparison.differs_at, comparison.differing_digest = length, theirs
        elif length > comparison.same_at:
            comparison.same_at = length
            if comparison.differs_at is not None and length >= comparison.differs_at:
                comparison.differs_at = None

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
            f"states have diverged after {length} requests: replica {self._replica} has digest "
            f"{_format_digest(ours)}, replica {peer} has {_format_digest(theirs)}; after {since} "
            "requests they agreed. No majority is known to agree with this replica. One of the "
            "operations in between is not deterministic, or differs between the replicas: "
            f"{format_requests(between)}. 'creek simulate --debug' finds operations that are not "
            "deterministic. This replica stops and keeps its data. Fix the operation on every "
            "replica. If other replicas continue, move the data directory of this one away, and "
            "restart it to fetch their state"
        )


def format_requests(requests: Iterable[tuple[int, Request]]) -> str:
    """Return the number of each operation, and the last operations with their positions."""
    indexed = [(index, request.operation) for index, request in requests]
    if not indexed:
        return "none retained"
    counts = Counter(unwrap_call(operation).name for _, operation in indexed)
    names = ", ".join(f"{count} × {name}" for name, count in sorted(counts.items()))
    last = ", ".join(
        f"{index}: {describe_call(operation)}"
        for index, operation in indexed[-REQUESTS_LISTED_MAX:]
    )
    return f"{names}; at position {last}"


def _format_digest(digest: int) -> str:
    return f"{digest:016x}"
