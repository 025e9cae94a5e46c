"""The numbers a replica is configured with. Time is counted in ticks of the driver's steady beat,
never read off a clock, so that a clock that jumps cannot start an election."""

from functools import cached_property
from typing import Final

import msgspec

from creekdb.errors import BadValue
from creekdb.protocol.membership.configuration import Configuration

ZERO_ALLOWED: Final = (
    "members",
    "acceptors",
    "begin_anew",
    "digest_every",
    "drafts",
    "local_reads",
    "record_orders",
)

REPLICA_MAX: Final = 2**32 - 1
"""The greatest number of a replica: what an identifier is ranked by has room for no more."""
ROUNDS_PER_EPOCH: Final = 2**40
"""Rounds of ballots in an epoch: those of a later epoch are all above those of an earlier one."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    members: tuple[int, ...]
    """The replicas of the cluster, ascending."""
    acceptors: int = 0
    """How many of the members, from the first, have a vote in consensus and may lead; 0: all."""

    begin_anew: int = 0
    """1: a replica without a promise on its disk may have lost another one, and takes no part until
    every other member has told it what it knows (`creekdb.protocol.membership.disk_loss_recovery`).
    For one that is added, the driver puts a promise of nothing there before it is started for the
    first time."""

    heartbeat_ticks: int = 2
    """Between two heartbeats."""
    suspect_ticks: int = 10
    """Without a heartbeat until a replica is suspected; grows when the suspicion was wrong."""
    suspect_ticks_max: int = 2000

    summary_ticks: int = 4
    """Between two rounds of anti-entropy."""
    pull_limit: int = 256
    """Requests in one answer to `Pull`. In a tick half as many may be pulled, or a third more
    than others receive in it."""

    retry_ticks: int = 8
    """Until what was not answered is asked again."""
    stuck_ticks: int = 48
    """Until a leader gives up on what only a silent replica could tell, and prepares anew."""
    window: int = 32
    """Instances of consensus under way at once."""
    batch_limit: int = 512
    """Identifiers in one batch."""
    catch_up_limit: int = 64
    """Decisions in one answer to `CatchUp`."""

    parallelism: int = 16
    """Executions under way at once, in schemes that execute concurrently."""

    local_reads: int = 1
    """0: a weak operation that only reads is sent to all and executed by all, like any other."""

    kept_apart: int = 65_536
    """Requests whose versions are kept each for itself; older ones are kept in stretches."""

    noop_ticks: int = 40
    """How long a weak request may stay unstable before the leader issues a strong no-op."""
    checkpoint_every: int = 4096
    """Committed requests between two checkpoints."""
    drift_limit_us: int = 500_000
    """How far ahead of the local clock a request may be stamped before it is reported."""
    digest_every: int = 0
    """Settled requests between two digests of the state, for replicas to compare; 0: none. There
    are others in between, with each instance, and in schemes without a version store none."""
    drafts: int = 0
    """1: leave it to the driver to go through the registers of images and snapshots, in time; and
    have their keys in order before somebody asks. So no step takes long for there are many."""
    record_orders: int = 0
    """1: tell with each tentative answer which serialization it was computed on. Costs a walk over
    everything that is not settled: for tests."""

    def __post_init__(self) -> None:
        if not self.members or list(self.members) != sorted(set(self.members)):
            raise BadValue(f"members are different and ascending, not {self.members}")
        if self.members[0] < 0 or self.members[-1] > REPLICA_MAX:
            raise BadValue(f"members have numbers from 0 to {REPLICA_MAX}, not {self.members}")
        if not 0 <= self.acceptors <= len(self.members):
            raise BadValue(f"{self.acceptors} acceptors: there are {len(self.members)} members")
        for name in Settings.__struct_fields__:
            if name not in ZERO_ALLOWED and getattr(self, name) < 1:
                raise BadValue(f"{name} is {getattr(self, name)}: it must be at least 1")

    @cached_property
    def voters(self) -> tuple[int, ...]:
        return self.members[: self.acceptors] if self.acceptors else self.members

    @cached_property
    def majority(self) -> int:
        """Of those who have a vote."""
        return len(self.voters) // 2 + 1

    @cached_property
    def horizon(self) -> int:
        """How far beyond what is decided here an instance is worth keeping anything about."""
        return 8 * self.window

    @cached_property
    def configuration(self) -> Configuration:
        """As the cluster began; nobody needs an address where the driver knows the way."""
        return Configuration(0, tuple((each, "") for each in self.members))

    @property
    def epoch(self) -> int:
        return self.configuration.epoch

    @property
    def former(self) -> tuple[int, ...]:
        """Replicas that were members in an earlier epoch."""
        return self.configuration.former

    @cached_property
    def all_replicas(self) -> tuple[int, ...]:
        """Whoever is or was a member: requests of former members are there to stay."""
        return tuple(sorted((*self.members, *self.former)))

    @cached_property
    def first_round(self) -> int:
        """The lowest round of a ballot that these members vote in."""
        return max(1, self.epoch * ROUNDS_PER_EPOCH)

    @cached_property
    def end_round(self) -> int:
        """The first round that is not theirs any more."""
        return (self.epoch + 1) * ROUNDS_PER_EPOCH

    def with_configuration(self, configuration: Configuration) -> "Settings":
        numbers = {name: getattr(self, name) for name in Settings.__struct_fields__}
        return ReconfiguredSettings(
            **(numbers | {"members": configuration.replica_ids}), new_configuration=configuration
        )

    def peers(self, replica: int) -> tuple[int, ...]:
        return tuple(each for each in self.members if each != replica)


class ReconfiguredSettings(Settings, frozen=True, kw_only=True, dict=True):
    """The same, where the members are told by more than their numbers."""

    new_configuration: Configuration

    @cached_property
    def configuration(self) -> Configuration:
        return self.new_configuration
