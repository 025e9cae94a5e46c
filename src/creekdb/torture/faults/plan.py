"""Plan of a torture: rounds and their faults, drawn from one seed.

Each round has a new cluster. The kinds of faults are dealt from a shuffled deck, across the rounds,
so that no kind is left out for long. A plan determines the kinds, times and durations of the
faults. The target of a fault is drawn at its time from the replicas that are then healthy.
"""

from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from random import Random
from typing import Final

import msgspec

ROUND_S: Final = 45.0
"""Duration of the faults of a round, in seconds."""
FAULT_INTERVAL_S: Final = 2.5
"""Mean time between the starts of two faults, in seconds."""
FAULT_DURATION_S: Final = (0.4, 5.0)
"""Range of the duration of a fault, in seconds."""
REPLICAS_MAX: Final = 7
KEEP_CHANGES: Final = "--keep-changes"
KEPT_CHANGES_FRACTION: Final = 0.8
"""Fraction of the rounds with a change feed. Without one, merged runs are committed as a whole."""
DISK_LOSS_FRACTION: Final = 0.35
"""Fraction of the rounds that end with the loss of data on a disk."""


class FaultGroup(StrEnum):
    """Part of the system that a fault affects."""

    PROCESS = "processes"
    NETWORK = "links"
    DISK = "disks"
    CLOCK = "clocks"
    MEMBERS = "members"
    OPERATION = "operations"


class FaultKind(StrEnum):
    KILL = "kill"
    KILL_LEADER = "kill the leader"
    KILL_ALL = "kill all"
    KILL_ALL_REPEATEDLY = "kill all repeatedly"
    PAUSE = "pause"
    EXHAUST_CONNECTIONS = "exhaust connections"
    PARTITION = "partition"
    ONE_WAY_CUT = "one-way cut"
    FLAPPING_LINKS = "flapping links"
    SLOW_LINKS = "slow links"
    RESET_LINKS = "resets mid-frame"
    FAILING_DISK = "failing disk"
    FAILING_DISK_DURING_CATCH_UP = "failing disk in catch-up"
    FULL_DISK = "full disk"
    SLOW_DISK = "slow disk"
    TORN_WRITE = "torn write"
    LOST_DISK = "lost disk"
    ROLLED_BACK_DISK = "rolled-back disk"
    CLOCK_STEP = "clock step"
    ADD_MEMBER = "add member"
    JOIN_MEMBER = "join member"
    REMOVE_MEMBER = "remove member"
    REMOVE_PARTITIONED_MEMBER = "remove partitioned member"
    REPLACE_MEMBER = "replace member"
    ROLLING_RESTART = "rolling restart"
    BACKUP = "backup"


_PROCESS = (
    FaultGroup.PROCESS,
    (
        FaultKind.KILL,
        FaultKind.KILL_LEADER,
        FaultKind.KILL_ALL,
        FaultKind.KILL_ALL_REPEATEDLY,
        FaultKind.PAUSE,
        FaultKind.EXHAUST_CONNECTIONS,
    ),
)
_NETWORK = (
    FaultGroup.NETWORK,
    (
        FaultKind.PARTITION,
        FaultKind.ONE_WAY_CUT,
        FaultKind.FLAPPING_LINKS,
        FaultKind.SLOW_LINKS,
        FaultKind.RESET_LINKS,
    ),
)
_DISK = (
    FaultGroup.DISK,
    (
        FaultKind.FAILING_DISK,
        FaultKind.FAILING_DISK_DURING_CATCH_UP,
        FaultKind.FULL_DISK,
        FaultKind.SLOW_DISK,
        FaultKind.TORN_WRITE,
        FaultKind.LOST_DISK,
        FaultKind.ROLLED_BACK_DISK,
    ),
)
_MEMBERS = (
    FaultGroup.MEMBERS,
    (
        FaultKind.ADD_MEMBER,
        FaultKind.JOIN_MEMBER,
        FaultKind.REMOVE_MEMBER,
        FaultKind.REMOVE_PARTITIONED_MEMBER,
        FaultKind.REPLACE_MEMBER,
    ),
)
_OPERATION = FaultGroup.OPERATION, (FaultKind.ROLLING_RESTART, FaultKind.BACKUP)
_CLOCK = FaultGroup.CLOCK, (FaultKind.CLOCK_STEP,)
GROUPS: Final[dict[FaultKind, FaultGroup]] = {
    kind: group
    for group, kinds in (_PROCESS, _NETWORK, _DISK, _CLOCK, _MEMBERS, _OPERATION)
    for kind in kinds
}
"""Group of every kind of fault."""
DISK_LOSSES: Final = (FaultKind.LOST_DISK, FaultKind.ROLLED_BACK_DISK)
"""Kinds of the loss of data at the end of a round."""
DECK: Final = (
    *(kind for kind in FaultKind if kind not in DISK_LOSSES),
    *(FaultKind.BACKUP, FaultKind.KILL, FaultKind.PARTITION),
)
"""Faults that are dealt in random order. Data of a disk are lost at the end of a round only."""


class PlannedFault(msgspec.Struct, frozen=True):
    """One fault, in seconds from the start of its round. `seed` draws its target."""

    kind: FaultKind
    at_s: float
    duration_s: float
    seed: str


class RoundPlan(msgspec.Struct, frozen=True):
    """Cluster and faults of one round."""

    number: int
    replicas: int
    checkpoint_every: int
    options: tuple[str, ...]
    """Options of `creek serve`, for all replicas."""
    duration_s: float
    faults: tuple[PlannedFault, ...]
    disk_loss: PlannedFault | None
    """Loss of data after all other faults have been healed, or None."""

    @property
    def keeps_changes(self) -> bool:
        """True if the replicas keep changes."""
        return KEEP_CHANGES in self.options


def plan_round(
    seed: int, number: int, replicas: int | None = None, duration_s: float = ROUND_S
) -> RoundPlan:
    """Return the plan of a round. Without `replicas`, their number is drawn too."""
    random = Random(f"{seed} {number}")
    drawn_replicas = random.choice((3, 3, 5))
    options: tuple[str, ...] = ()
    if random.random() < 0.5:
        options += ("--no-io-uring",)
    if random.random() < 0.3:
        options += ("--execution", "threads")
    if Random(f"{seed} {number} changes").random() < KEPT_CHANGES_FRACTION:
        options += (KEEP_CHANGES, "1h")
    count = max(1, round(duration_s / FAULT_INTERVAL_S))
    kinds = islice(_deal(seed), number * count, (number + 1) * count)
    slot_s = duration_s / count
    faults = tuple(
        PlannedFault(
            kind,
            round((index + random.random() * 0.8) * slot_s, 2),
            round(min(random.uniform(*FAULT_DURATION_S), duration_s), 2),
            f"{seed} {number} {index}",
        )
        for index, kind in enumerate(kinds)
    )
    has_disk_loss = random.random() < DISK_LOSS_FRACTION
    kind = random.choice(DISK_LOSSES)
    disk_loss = PlannedFault(kind, duration_s, 1.0, f"{seed} {number} lost disk")
    return RoundPlan(
        number=number,
        replicas=replicas or drawn_replicas,
        checkpoint_every=random.choice((20, 150, 10_000)),
        options=options,
        duration_s=duration_s,
        faults=faults,
        disk_loss=disk_loss if has_disk_loss else None,
    )


def _deal(seed: int) -> Iterator[FaultKind]:
    """Yield kinds of faults without end, a shuffled deck at a time."""
    random = Random(f"{seed} deck")
    while True:
        yield from random.sample(DECK, len(DECK))
