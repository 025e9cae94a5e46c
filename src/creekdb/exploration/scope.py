"""Scopes: the bounds of an exploration, and the scopes that have a name.

A scope lists the calls of the clients, and how often each fault may happen at most. The exploration
then tries every order of all steps.
"""

from typing import Any, Final, Literal, TypeAlias

import msgspec

from creekdb.errors import UnknownName, UsageError

Links: TypeAlias = Literal["any", "fifo"]
"""Order of delivery on one link. With `any`, a message may stay in flight for ever. This includes
every loss of messages, as far as safety is concerned."""

CALLS_MAX: Final = 5
"""Upper bound for the calls of a scope. The order in real time of any two calls is one bit."""

EARLY_US: Final = 1_000_000
LATE_US: Final = 2_000_000
"""Clock of a replica that runs ahead."""


class ScriptedCall(msgspec.Struct, frozen=True):
    """Call of a client. Calls of one session are made in the order of the script."""

    replica: int
    operation: str
    arguments: tuple[Any, ...] = ()
    strong: bool = False
    clock_us: int = EARLY_US
    """Clock of the replica at the time of the call."""
    session: int = 0

    def __str__(self) -> str:
        kind = "strong" if self.strong else "weak"
        return f"{kind} {self.operation}({', '.join(map(repr, self.arguments))})"


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    calls: tuple[ScriptedCall, ...]
    replicas: int = 3
    links: Links = "any"
    crashes: int = 0
    """Crashes, each followed by a restart from the durable records."""
    crashing: tuple[int, ...] = (0, 1, 2)
    """Replicas that may crash. The records of the others are durable at once."""
    leader_changes: int = 0
    """Suspicions of the leader, each followed by a ballot of the suspecting replica."""
    suspecting: tuple[int, ...] = (0, 1, 2)
    """Replicas that may suspect the leader. The leader suspects a follower of its fast quorum."""
    losses: int = 0
    """Lost messages. Without these, links of the order `any` still delay messages for ever."""
    duplicates: int = 0
    """Messages that are delivered twice."""
    partitions: int = 0
    """Isolations of one replica, whose messages are lost until the partition heals."""
    isolated: tuple[int, ...] = (0, 1, 2)
    """Replicas that a partition may isolate."""
    ticks: int = 0
    """Ticks of replicas, in addition to those of a suspicion."""
    concurrent: bool = False
    """True if executions take time: their completion is a step of its own."""
    datatype: str = "list"
    settings: dict[str, int] = {}
    """Settings that differ from those of every scope."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.calls) <= CALLS_MAX:
            raise UsageError(f"{len(self.calls)} calls: a scope has 1 to {CALLS_MAX} calls")
        if any(each.replica >= self.replicas for each in self.calls):
            raise UsageError(f"a call needs replica {self.replicas} or above; add replicas")


def _append(replica: int, value: str, *, strong: bool = False, **fields: int) -> ScriptedCall:
    return ScriptedCall(replica, "append", (value,), strong, session=replica, **fields)


_WEAK_AND_STRONG: Final = (_append(1, "a"), _append(2, "b", strong=True, clock_us=LATE_US))
_TWO_STRONG: Final = (_append(1, "a", strong=True), _append(2, "b", strong=True))
_MORE_CALLS: Final = (
    _append(0, "c", strong=True),
    _append(1, "d"),
    _append(2, "e", strong=True),
)

_LATE_CONTEXTS: Final = {"late_contexts": 1, "hold_us_max": 0}
"""Settings of scopes with cuts. A hold would add nothing: the leader may receive any request before
or after any other."""

SCOPES: Final = {
    scope.name: scope
    for scope in (
        Scope(
            name="smallest",
            description="a weak and a strong call, no faults",
            calls=_WEAK_AND_STRONG,
        ),
        Scope(
            name="session",
            description="a weak, a strong and a weak call of one session",
            calls=(_append(1, "a"), _append(1, "b", strong=True), _append(1, "c")),
        ),
        Scope(
            name="two-strong",
            description="two strong calls",
            calls=_TWO_STRONG,
            links="fifo",
        ),
        Scope(
            name="three-calls",
            description="a weak and two strong calls",
            calls=(*_WEAK_AND_STRONG, _MORE_CALLS[0]),
            links="fifo",
        ),
        Scope(
            name="crash",
            description="a weak and a strong call, any replica crashes and restarts",
            calls=_WEAK_AND_STRONG,
            crashes=1,
        ),
        Scope(
            name="leader-change",
            description="a strong call, another replica starts a ballot",
            calls=_WEAK_AND_STRONG[1:],
            leader_changes=1,
            suspecting=(1,),
        ),
        Scope(
            name="two-strong-leader-change",
            description="two strong calls of one session, another replica starts a ballot",
            calls=(_append(2, "a", strong=True), _append(2, "b", strong=True)),
            links="fifo",
            leader_changes=1,
            suspecting=(1,),
        ),
        Scope(
            name="rival-leaders",
            description="a strong call, two new ballots",
            calls=_TWO_STRONG[:1],
            links="fifo",
            leader_changes=2,
        ),
        Scope(
            name="crash-and-leader-change",
            description="a strong call, a crash and a new ballot",
            calls=_WEAK_AND_STRONG[1:],
            links="fifo",
            crashes=1,
            leader_changes=1,
            suspecting=(1, 2),
        ),
        Scope(
            name="partition",
            description="a weak and a strong call, a partition isolates any replica",
            calls=_WEAK_AND_STRONG,
            links="fifo",
            partitions=1,
        ),
        Scope(
            name="partition-and-leader-change",
            description="a weak and a strong call, the leader is isolated and replaced",
            calls=_WEAK_AND_STRONG,
            links="fifo",
            partitions=1,
            isolated=(0,),
            leader_changes=1,
            suspecting=(1,),
        ),
        Scope(
            name="lossy",
            description="a weak and a strong call, one message lost, one delivered twice",
            calls=_WEAK_AND_STRONG,
            links="fifo",
            losses=1,
            duplicates=1,
        ),
        Scope(
            name="noop",
            description="two weak calls, a no-op of the leader commits them",
            calls=(_append(1, "a", clock_us=LATE_US), _append(2, "b")),
            links="fifo",
            ticks=1,
            settings={"noop_ticks": 1},
        ),
        Scope(
            name="checkpoint",
            description="two strong calls with a checkpoint after each, one message lost",
            calls=_TWO_STRONG,
            links="fifo",
            losses=1,
            settings={"checkpoint_every": 1},
        ),
        Scope(
            name="fast-path",
            description="two strong calls, a fast quorum votes before the leader's proposal",
            calls=_TWO_STRONG,
            links="fifo",
            settings={"fast_path": 1},
        ),
        Scope(
            name="fast-path-leader-change",
            description="a strong call with first votes, another replica starts a ballot",
            calls=_WEAK_AND_STRONG[1:],
            links="fifo",
            leader_changes=1,
            suspecting=(1,),
            settings={"fast_path": 1},
        ),
        Scope(
            name="fast-path-new-quorum",
            description="a strong call with first votes, the leader changes its fast quorum",
            calls=_WEAK_AND_STRONG[1:],
            links="fifo",
            leader_changes=1,
            suspecting=(0,),
            settings={"fast_path": 1},
        ),
        Scope(
            name="fast-path-crash",
            description="a strong call, a first voter crashes, another replica starts a ballot",
            calls=_WEAK_AND_STRONG[1:],
            links="fifo",
            crashes=1,
            crashing=(1,),
            leader_changes=1,
            suspecting=(1,),
            settings={"fast_path": 1},
        ),
        Scope(
            name="fast-path-late-contexts",
            description="a weak and a strong call, first votes for an extended context",
            calls=_WEAK_AND_STRONG,
            settings={"fast_path": 1, **_LATE_CONTEXTS},
        ),
        Scope(
            name="fast-path-late-contexts-leader-change",
            description="a weak and a strong call, a new leader recovers an extended context",
            calls=_WEAK_AND_STRONG,
            links="fifo",
            leader_changes=1,
            suspecting=(1,),
            settings={"fast_path": 1, **_LATE_CONTEXTS},
        ),
        Scope(
            name="late-contexts",
            description="a weak and a strong call, whose context the leader extends",
            calls=_WEAK_AND_STRONG,
            settings=_LATE_CONTEXTS,
        ),
        Scope(
            name="late-contexts-leader-change",
            description="a weak and a strong call, a new leader extends the context anew",
            calls=_WEAK_AND_STRONG,
            links="fifo",
            leader_changes=1,
            suspecting=(1,),
            settings=_LATE_CONTEXTS,
        ),
        Scope(
            name="late-contexts-crash",
            description="a weak call at the leader and a strong one, the leader crashes",
            calls=(_append(0, "a"), _WEAK_AND_STRONG[1]),
            links="fifo",
            crashes=1,
            crashing=(0,),
            settings=_LATE_CONTEXTS,
        ),
        Scope(
            name="executions",
            description="a weak and a strong call at 2 replicas, executions take time",
            calls=(_append(1, "a"), _append(0, "b", strong=True, clock_us=LATE_US)),
            replicas=2,
            concurrent=True,
        ),
    )
}


def with_calls(scope: Scope, count: int) -> Scope:
    """Return the scope with the first `count` of its calls, or with more calls."""
    calls = (*scope.calls, *_MORE_CALLS)
    if not 1 <= count <= min(len(calls), CALLS_MAX):
        maximum = min(len(calls), CALLS_MAX)
        raise UsageError(f"{count} operations: the scope {scope.name} has 1 to {maximum}")
    return msgspec.structs.replace(scope, calls=calls[:count])


def get_scope(name: str) -> Scope:
    """Return the scope of that name, or raise `UnknownName`."""
    if name not in SCOPES:
        raise UnknownName("scope", name, list(SCOPES))
    return SCOPES[name]
