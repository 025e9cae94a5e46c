"""Fast quorums: the one that a ballot names, the choice of a leader, and pauses without one.

`docs/internals/fast-path.md` specifies the choice. Only latency depends on it. Safety does not.

- A leader judges the fast path by samples of its decisions. It judges only instances proposed after
  its first open instance is decided, since followers need that long to follow its order.
- If less than half of a sample was fast, the leader searches for a member of the fast quorum that
  was absent from most of it. If there is one, or if the leader suspects a member, it starts a
  ballot that names another fast quorum. Its members have the shortest measured delays.
- Otherwise it pauses the fast path. Each pause is twice as long as the one before, up to a limit,
  until a sample is good again.
- The time between two such ballots grows likewise. Without a better quorum there is no ballot.
"""

from collections.abc import Callable
from functools import lru_cache
from math import comb, inf
from typing import Final

from creekdb.protocol.consensus.delays import DelayEstimates
from creekdb.protocol.messages import Ballot
from creekdb.protocol.probes import Probe
from creekdb.protocol.shared_variables import SharedVariables

QUORUMS_CACHED_MAX: Final = 64
SAMPLE: Final = 32
"""Number of decisions after which the share of fast ones is judged."""
ABSENCES_MIN: Final = SAMPLE * 3 // 4
"""Number of decisions of a low sample from which a member that had not voted counts as late."""
PAUSE: Final = 96
"""Number of decisions without the fast path after a low sample."""
PAUSE_MAX: Final = 64 * PAUSE
CHANGE_FACTOR: Final = 2
"""Shortest time between two changes of the fast quorum, as a multiple of `suspect_ticks`."""
CHANGE_FACTOR_MAX: Final = 64 * CHANGE_FACTOR
QUORUMS_MAX: Final = 2**20
"""Number of fast quorums, with 23 voters less than this, up to which a leader chooses one. A choice
among more would skip too many of the rounds that an epoch has."""
NEVER: Final = 2**62
"""Instance beyond all that are proposed."""


@lru_cache(QUORUMS_CACHED_MAX)
def fast_quorum(voters: tuple[int, ...], ballot: Ballot) -> tuple[int, ...]:
    """Return the fast quorum that a ballot names: its owner, and others up to a majority.

    The round selects one of the lists of others, which are in lexicographic order. So consecutive
    rounds name different quorums.
    """
    others = [each for each in voters if each != ballot.replica]
    missing = len(voters) // 2
    rank = ballot.round % comb(len(others), missing)
    quorum = [ballot.replica]
    while missing:
        member = others.pop(0)
        lists_with_member = comb(len(others), missing - 1)
        if rank < lists_with_member:
            quorum.append(member)
            missing -= 1
        else:
            rank -= lists_with_member
    return tuple(quorum)


def ballot_of_quorum(voters: tuple[int, ...], first: Ballot, quorum: set[int]) -> Ballot:
    """Return the lowest ballot from `first` on that names this fast quorum, or `first` if there are
    too many quorums."""
    others = [each for each in voters if each != first.replica]
    missing = len(voters) // 2
    count, rank = comb(len(others), missing), 0
    if count > QUORUMS_MAX:
        return first
    while missing:
        if others.pop(0) in quorum:
            missing -= 1
        else:
            rank += comb(len(others), missing - 1)
    return Ballot(first.round + (rank - first.round) % count, first.replica)


class FastPathControl:
    """Decides whether this replica, as the leader, uses the fast path, and with which quorum."""

    def __init__(
        self,
        shared: SharedVariables,
        delays: DelayEstimates,
        reachable: Callable[[], tuple[int, ...]],
    ) -> None:
        """`reachable` returns the members that are not suspected."""
        self._shared = shared
        self._delays = delays
        self._reachable = reachable
        self._is_open = False
        """True if the last proposal could be predicted."""
        self._opened_at = NEVER
        """First open instance, until it is decided."""
        self._judged_from = NEVER
        """First instance that is judged."""
        self._last_open = -1
        """Last open instance."""
        self._sampled = self._hits = 0
        self._absences: dict[int, int] = {}
        """Number of decisions of the sample before which a member had not voted."""
        self._late: set[int] = set()
        """Members that were absent from a low sample, while there is a quorum without them."""
        self._pause = 0
        """Number of decisions until the pause ends."""
        self._next_pause = PAUSE
        self._change_at = 0
        """Tick from which the fast quorum may be changed."""
        self._change_factor = CHANGE_FACTOR

    @property
    def is_on(self) -> bool:
        """True if proposals follow a deadline, so that a fast quorum can predict them."""
        return not self._pause

    def reconfigure(self) -> None:
        """Adopt new members."""
        self._late.clear()

    # --- proposals and decisions --------------------------------------------------------------

    def on_proposed(self, instance: int, *, is_open: bool) -> None:
        """Record a proposal of this leader. Followers can predict those after an open one."""
        if is_open and not self._is_open:
            self._opened_at, self._judged_from = instance, NEVER
        self._is_open = is_open
        if is_open:
            self._last_open = instance

    def on_decided(self, instance: int, absent: tuple[int, ...] | None) -> None:
        """Record a decision by votes in the ballot of this leader.

        `absent` has the members of the fast quorum that had not voted yet; None for a fast
        decision.
        """
        if self._pause:
            self._pause -= 1
        elif instance >= self._judged_from:
            self._add_to_sample(absent)
        elif instance >= self._opened_at:
            self._opened_at, self._judged_from = NEVER, self._last_open + 1

    def _add_to_sample(self, absent: tuple[int, ...] | None) -> None:
        self._sampled += 1
        if absent is None:
            self._hits += 1
        else:
            for member in absent:
                self._absences[member] = self._absences.get(member, 0) + 1
        if self._sampled == SAMPLE:
            self._judge()

    def _judge(self) -> None:
        late = [each for each, count in self._absences.items() if count >= ABSENCES_MIN]
        is_good = 2 * self._hits >= SAMPLE
        self._restart_sample()
        if is_good:
            self._next_pause, self._change_factor = PAUSE, CHANGE_FACTOR
            return
        self._late.update(late)
        if late and self._find_good_quorum() is not None:
            if self._shared.ticks >= self._change_at:
                return  # the next tick changes the quorum
        else:
            self._late.clear()
        self._shared.probes.hit(Probe.FAST_PATH_PAUSED)
        self._pause = self._next_pause
        self._next_pause = min(2 * self._next_pause, PAUSE_MAX)

    def _restart_sample(self) -> None:
        self._sampled = self._hits = 0
        self._absences = {}

    # --- quorums ------------------------------------------------------------------------------

    def must_change(self, ballot: Ballot) -> bool:
        """True if this leader has to leave its ballot for one with a better fast quorum.

        The caller then starts the ballot that `choose` returns.
        """
        shared = self._shared
        if shared.ticks < self._change_at:
            return False
        reachable = self._reachable()
        for member in fast_quorum(shared.settings.voters, ballot):
            if member not in reachable or member in self._late:
                break
        else:
            return False
        if self._find_good_quorum() is None:
            return False
        shared.probes.hit(Probe.FAST_QUORUM_CHANGED)
        self._change_at = shared.ticks + self._change_factor * shared.settings.suspect_ticks
        self._change_factor = min(2 * self._change_factor, CHANGE_FACTOR_MAX)
        return True

    def choose(self, first: Ballot) -> Ballot:
        """Return the lowest ballot from `first` on that names the best fast quorum."""
        self._is_open, self._opened_at, self._judged_from = False, NEVER, NEVER
        self._pause = 0
        self._restart_sample()
        quorum = set(self._best_members())
        return ballot_of_quorum(self._shared.settings.voters, first, quorum)

    def _find_good_quorum(self) -> list[int] | None:
        """Return the best other members of a fast quorum, if none is suspected or late."""
        reachable, members = self._reachable(), self._best_members()
        is_good = all(each in reachable and each not in self._late for each in members)
        return members if is_good else None

    def _best_members(self) -> list[int]:
        """Return the other members of the best fast quorum."""
        reachable, voters = self._reachable(), self._shared.settings.voters

        def order(member: int) -> tuple[bool, bool, float, int]:
            delay_us = self._delays.mean_us(member)
            is_late = member in self._late
            return member not in reachable, is_late, inf if delay_us is None else delay_us, member

        others = [each for each in voters if each != self._shared.index]
        return sorted(others, key=order)[: len(voters) // 2]
