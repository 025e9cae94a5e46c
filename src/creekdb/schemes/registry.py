"""Schemes by name, for drivers and commands that create replicas without importing each scheme."""

from collections.abc import Callable
from typing import TypeAlias

from creekdb.errors import UnknownName, UsageError
from creekdb.execution.datatype import DataType
from creekdb.execution.module_loader import import_user_module
from creekdb.protocol.probes import Probe
from creekdb.protocol.settings import Settings
from creekdb.schemes.archie import ArchieReplica
from creekdb.schemes.basic import BasicReplica
from creekdb.schemes.bayou import BayouReplica
from creekdb.schemes.core.replica import Replica
from creekdb.schemes.creek import CreekReplica
from creekdb.schemes.differential import DifferentialReplica
from creekdb.schemes.smr import SmrReplica

Scheme: TypeAlias = Callable[[int, Settings, DataType], Replica]
"""Class or factory that creates the replica with the given index."""

SCHEMES: dict[str, Scheme] = {
    "basic": BasicReplica,
    "creek": CreekReplica,
    "both": DifferentialReplica,
    "smr": SmrReplica,
    "bayou": BayouReplica,
    "archie": ArchieReplica,
}

_VERSION_STORE = (Probe.LOCAL_READ, Probe.RUN_MERGED, Probe.RUN_SPLIT)
"""Probes that require tentative responses from a version store."""
_OPTIMISTIC_DELIVERY = (Probe.DECIDED_UNPROPOSED, Probe.DECIDED_OUT_OF_PROPOSED_ORDER)
"""Probes that require an optimistic delivery."""
_MEMBERSHIP = (
    Probe.MEMBERS_CHANGED,
    Probe.CHANGE_REJECTED,
    Probe.JOINED,
    Probe.REMOVED,
    Probe.MEMBERS_LEARNED_FROM_UNKNOWN,
    Probe.REMOVED_MEMBER_CAUGHT_UP,
)
"""Probes that require membership changes: the causal context orders each change after the previous
one."""
_CAUSAL_CONTEXTS = (
    *_MEMBERSHIP,
    Probe.REQUEST_AHEAD_OF_CONTEXT,
    Probe.PROPOSAL_DEFERRED,
    Probe.NOOP_ISSUED,
)
"""Probes that require causal contexts with missing requests, or weak requests that wait for such a
context."""
_SPECULATION = (
    Probe.ROLLED_BACK,
    Probe.REEXECUTED,
    Probe.EXECUTION_OVERTAKEN,
    Probe.STABLE_FROM_COMMIT,
)
"""Probes that require an execution before the order is decided."""
_TENTATIVE_RESPONSES = (Probe.TENTATIVE_AGAIN, Probe.APOLOGY)
"""Probes that require a response before the order is decided."""
_RIVAL_LEADERS = (
    Probe.CAMPAIGN_LOST,
    Probe.BALLOT_STALE,
    Probe.STUCK_INSTANCE,
    Probe.DECISIONS_UNREACHABLE,
    Probe.DECIDED_IN_PROMISE,
    Probe.GAP_FILLED,
    Probe.DECIDED_BEFORE_LEADING,
    Probe.DECIDED_TWICE,
    Probe.JOINED_AFTER_DISK_LOSS,
)
"""Probes that require competing leaders. A scheme with one primary has none, and the primary finds
all its proposals on its own disk, which is never lost."""
_DELAYED_VOTES = (
    Probe.PREPARE_REPEATED,
    Probe.ACCEPT_REPEATED,
    Probe.WINDOW_FULL,
    Probe.VOTE_DEFERRED,
    Probe.VOTE_OVERTAKEN,
)
"""Probes that require a delayed vote. A leader votes for its own proposal immediately, because it
proposes only requests whose predicate holds."""

_UNREACHABLE_PROBES: dict[str, tuple[Probe, ...]] = {
    "basic": (*_VERSION_STORE, *_OPTIMISTIC_DELIVERY),
    "creek": _OPTIMISTIC_DELIVERY,
    "both": _OPTIMISTIC_DELIVERY,
    "smr": (
        *_VERSION_STORE,
        *_OPTIMISTIC_DELIVERY,
        *_CAUSAL_CONTEXTS,
        *_SPECULATION,
        *_TENTATIVE_RESPONSES,
    ),
    "bayou": (
        *_VERSION_STORE,
        *_OPTIMISTIC_DELIVERY,
        *_CAUSAL_CONTEXTS,
        *_RIVAL_LEADERS,
        *_DELAYED_VOTES,
    ),
    "archie": (*_VERSION_STORE, *_CAUSAL_CONTEXTS, *_TENTATIVE_RESPONSES),
}


def get_scheme(name: str) -> Scheme:
    """Return the scheme of that name, or load it from `package.module:Class`.

    Raises `UnknownName` for any other name.
    """
    if name in SCHEMES:
        return SCHEMES[name]
    if ":" not in name:
        raise UnknownName("scheme", name, [*SCHEMES, "package.module:Class"])
    module, variable = import_user_module("scheme", name)
    if not hasattr(module, variable):
        raise UsageError(f"scheme {name}: {module.__name__} has no '{variable}'")
    scheme: Scheme = getattr(module, variable)
    if not callable(scheme):
        raise UsageError(f"scheme {name}: not callable; name a replica class or a factory")
    return scheme


def reachable_probes(name: str) -> tuple[Probe, ...]:
    """Return the probes that replicas of that scheme can fire."""
    unreachable = _UNREACHABLE_PROBES.get(name, ())
    return tuple(probe for probe in Probe if probe not in unreachable)
