"""Settings of a replica. Durations are in ticks of the driver's steady timer. No duration depends
on a wall clock, so a clock jump cannot start an election."""

from functools import cached_property
from typing import Final

import msgspec

from creekdb.errors import BadValue
from creekdb.protocol.membership.configuration import Configuration

ZERO_ALLOWED: Final = (
    "members",
    "acceptors",
    "begin_anew",
    "decided_only",
    "digest_every",
    "drafts",
    "emit_events",
    "estimates",
    "footprints",
    "fast_path",
    "hold_us_max",
    "late_contexts",
    "local_reads",
    "record_orders",
    "report_changes",
)

REPLICA_MAX: Final = 2**32 - 1
"""Greatest number of a replica. The sort key of an identifier has no more bits for it."""
ROUNDS_PER_EPOCH: Final = 2**40
"""Number of ballot rounds per epoch. All rounds of an epoch are above those of earlier epochs."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    members: tuple[int, ...]
    """Replicas of the cluster, in ascending order."""
    acceptors: int = 0
    """Number of members, from the first, that vote in consensus and may lead; 0 for all."""

    begin_anew: int = 0
    """If 1, a replica without a promise on its disk may have lost another disk. It abstains until
    every other member has responded (`creekdb.protocol.membership.disk_loss_recovery`). For an
    added replica, the driver writes an empty promise to the disk before the first start."""

    heartbeat_ticks: int = 2
    """Interval between heartbeats."""
    suspect_ticks: int = 10
    """Time without a heartbeat until a replica is suspected. Grows after a wrong suspicion."""
    suspect_ticks_max: int = 2000

    summary_ticks: int = 4
    """Interval between rounds of anti-entropy."""
    pull_limit: int = 256
    """Requests in one response to `Pull`. The pull budget of a tick is half of that, or a third
    more than the highest receive rate of the peers."""

    retry_ticks: int = 8
    """Time until a message without a response is sent again."""
    stuck_ticks: int = 48
    """Time until a leader that depends on an unreachable replica starts a new ballot."""
    window: int = 32
    """Consensus instances in flight at once."""
    batch_limit: int = 512
    """Identifiers in one batch."""
    catch_up_limit: int = 64
    """Decisions in one response to `CatchUp`."""

    parallelism: int = 16
    """Executions in flight at once, in schemes that execute concurrently."""

    estimates: int = 0
    """If 1, `creek` delays a request while an earlier one is expected to write what it reads."""

    footprints: int = 0
    """If 1, a stable response of `creek` waits only for requests that may write what its operation
    may touch, as the data type declares it."""
    fast_path: int = 0
    """If 1, strong requests are proposed in the order of their timestamps, and the fast quorum of
    the ballot votes for them before the leader's proposal arrives. Schemes without contexts ignore
    it."""
    late_contexts: int = 0
    """If 1, the leader proposes strong requests in the order of their timestamps, and extends the
    context of each by the weak requests with lower timestamps that it has. Schemes without contexts
    ignore it."""
    hold_us_max: int = 50_000
    """Time for which a leader with `late_contexts` may hold a strong request until requests with
    lower timestamps arrive, in microseconds. The actual time follows measured delays."""
    hold_ticks_max: int = 2
    """Limit of the hold in ticks. It applies even if the clock stops or goes back."""
    decided_only: int = 0
    """If 1, `archie` executes a request when its position is decided, not when it is proposed."""

    local_reads: int = 1
    """If 0, a weak read-only operation is broadcast and executed by all, like any other."""

    kept_apart: int = 65_536
    """Requests whose versions are stored individually. Older ones are stored in merged runs."""

    noop_ticks: int = 40
    """Time that a weak request may stay unstable before the leader issues a strong no-op."""
    checkpoint_every: int = 4096
    """Committed requests between two checkpoints."""
    drift_limit_us: int = 500_000
    """Lead of a request's timestamp over the local clock, in microseconds, from which it is
    reported."""
    digest_every: int = 0
    """Stable requests between two digests of the state, which replicas compare; 0 for none. Each
    instance adds another digest. Schemes without a version store produce none."""
    drafts: int = 0
    """If 1, the driver streams the registers of checkpoints and snapshots incrementally, and their
    keys are kept sorted. So a large state never makes one step slow."""
    emit_events: int = 1
    """If 0, the replica emits no events of casts, CAB deliveries and commits. These are for
    recordings."""
    record_orders: int = 0
    """If 1, each tentative response carries the serialisation on which it was computed. This costs
    a walk over everything that is not stable, and is meant for tests."""
    report_changes: int = 0
    """If 1, the replica emits each request that becomes stable, with the values that it wrote. If
    2, also with the values before. A merged run is then split when it is committed."""

    def __post_init__(self) -> None:
        if not self.members or list(self.members) != sorted(set(self.members)):
            raise BadValue(f"members {self.members}: must be distinct and in ascending order")
        if self.members[0] < 0 or self.members[-1] > REPLICA_MAX:
            raise BadValue(f"members {self.members}: numbers must be from 0 to {REPLICA_MAX}")
        if not 0 <= self.acceptors <= len(self.members):
            raise BadValue(
                f"acceptors is {self.acceptors}: must be from 0 to {len(self.members)}, all members"
            )
        for name in Settings.__struct_fields__:
            if name not in ZERO_ALLOWED and getattr(self, name) < 1:
                raise BadValue(f"{name} is {getattr(self, name)}: it must be at least 1")

    @cached_property
    def voters(self) -> tuple[int, ...]:
        return self.members[: self.acceptors] if self.acceptors else self.members

    @cached_property
    def majority(self) -> int:
        """Size of a majority of the voters."""
        return len(self.voters) // 2 + 1

    @cached_property
    def horizon(self) -> int:
        """Distance from the first undecided instance beyond which no instance is tracked."""
        return 8 * self.window

    @cached_property
    def configuration(self) -> Configuration:
        """Initial configuration. The addresses are empty because the driver knows the routes."""
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
        """Present and former members. Requests of former members stay valid."""
        return tuple(sorted((*self.members, *self.former)))

    @cached_property
    def first_round(self) -> int:
        """Lowest round of a ballot that these members vote in."""
        return max(1, self.epoch * ROUNDS_PER_EPOCH)

    @cached_property
    def end_round(self) -> int:
        """First round of the next epoch."""
        return (self.epoch + 1) * ROUNDS_PER_EPOCH

    def with_configuration(self, configuration: Configuration) -> "Settings":
        values = {name: getattr(self, name) for name in Settings.__struct_fields__}
        return ReconfiguredSettings(
            **(values | {"members": configuration.replica_ids}), new_configuration=configuration
        )

    def peers(self, replica: int) -> tuple[int, ...]:
        return tuple(each for each in self.members if each != replica)


class ReconfiguredSettings(Settings, frozen=True, kw_only=True, dict=True):
    """Settings with an explicit configuration: epoch, addresses and former members."""

    new_configuration: Configuration

    @cached_property
    def configuration(self) -> Configuration:
        return self.new_configuration
