"""The schemes by name: how drivers and commands make replicas without importing each scheme."""

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
"""Makes the replica with that index."""

SCHEMES: dict[str, Scheme] = {
    "basic": BasicReplica,
    "creek": CreekReplica,
    "both": DifferentialReplica,
    "smr": SmrReplica,
    "bayou": BayouReplica,
    "archie": ArchieReplica,
}

_VERSIONS = (Probe.ANSWERED_LOCALLY, Probe.STRETCH_MERGED, Probe.STRETCH_TAKEN_APART)
"""Need weak answers from a version store."""
_OPTIMISM = (Probe.DECIDED_UNPROPOSED, Probe.DECIDED_OTHERWISE)
"""Need an optimistic delivery."""
_MEMBERS = (
    Probe.MEMBERS_CHANGED,
    Probe.CHANGE_REFUSED,
    Probe.JOINED,
    Probe.REMOVED,
    Probe.LATER_MEMBER_HEARD,
    Probe.FORMER_MEMBER_TOLD,
)
"""Need members that change: a change is ordered after the one before by its causal context."""
_CONTEXTS = (
    *_MEMBERS,
    Probe.REQUEST_AHEAD_OF_CONTEXT,
    Probe.OFFER_DEFERRED,
    Probe.NOOP_ISSUED,
)
"""Need causal contexts that something can be missing of, or weak requests that wait for one."""
_SPECULATION = (
    Probe.ROLLED_BACK,
    Probe.REEXECUTED,
    Probe.EXECUTION_OVERTAKEN,
    Probe.STABLE_FROM_COMMIT,
)
"""Need an execution before the order is decided."""
_TENTATIVE = (Probe.TENTATIVE_AGAIN, Probe.APOLOGY)
"""Need an answer before the order is decided."""
_RIVALS = (
    Probe.CAMPAIGN_OUTBID,
    Probe.BALLOT_FROM_THE_PAST,
    Probe.STUCK_INSTANCE,
    Probe.UNINFORMED,
    Probe.PROMISE_TELLS_DECIDED,
    Probe.GAP_FILLED,
    Probe.DECIDED_BEFORE_LEADING,
    Probe.DELIVERED_TWICE_AVOIDED,
    Probe.ENTERED_ANEW,
)
"""Need a second leader: a primary finds on its own disk all that it ever proposed, and that disk is
never lost."""
_OTHER_VOTES = (
    Probe.PREPARE_AGAIN,
    Probe.ACCEPT_AGAIN,
    Probe.WINDOW_FULL,
    Probe.VOTE_DEFERRED,
    Probe.VOTE_OVERTAKEN,
)
"""Need a vote that is not cast as soon as it is asked for: the leader's own always is, since it
proposes only what it can vouch for."""

_UNREACHABLE_PROBES: dict[str, tuple[Probe, ...]] = {
    "basic": (*_VERSIONS, *_OPTIMISM),
    "creek": _OPTIMISM,
    "both": _OPTIMISM,
    "smr": (*_VERSIONS, *_OPTIMISM, *_CONTEXTS, *_SPECULATION, *_TENTATIVE),
    "bayou": (*_VERSIONS, *_OPTIMISM, *_CONTEXTS, *_RIVALS, *_OTHER_VOTES),
    "archie": (*_VERSIONS, *_CONTEXTS, *_TENTATIVE),
}


def get_scheme(name: str) -> Scheme:
    """The scheme of that name, or yours as `package.module:Class`; or `UnknownName`."""
    if name in SCHEMES:
        return SCHEMES[name]
    if ":" not in name:
        raise UnknownName("scheme", name, [*SCHEMES, "package.module:Class"])
    module, variable = import_user_module("scheme", name)
    if not hasattr(module, variable):
        raise UsageError(f"scheme {name}: {module.__name__} has no '{variable}'")
    scheme: Scheme = getattr(module, variable)
    if not callable(scheme):
        raise UsageError(f"scheme {name} is no class of replicas, nor makes them")
    return scheme


def reachable_probes(name: str) -> tuple[Probe, ...]:
    """The probes that replicas of that scheme can fire."""
    out_of_reach = _UNREACHABLE_PROBES.get(name, ())
    return tuple(probe for probe in Probe if probe not in out_of_reach)
