"""Description of a scheme. Commands, the fuzzer and the charts derive their tables from it."""

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from creekdb.execution.datatype import DataType
from creekdb.protocol.guarantees import SchemeGuarantees
from creekdb.protocol.probes import Probe
from creekdb.protocol.settings import Settings
from creekdb.schemes.core.replica import Replica

Scheme: TypeAlias = Callable[[int, Settings, DataType], Replica]
"""Class or factory that creates the replica with the given index."""


class ChartLine(NamedTuple):
    """Line of a scheme in Figure 1."""

    response: str
    """Kind of response, for the legend. Empty if the scheme has one line only."""
    measure: str
    """Latency in SUMMARY, without its statistic."""
    dash: Literal["solid", "dashed", "dotted"]
    shape: Literal["circle", "square", "diamond"]
    shown: bool = True
    """True if the line is visible initially. The legend toggles it."""


class SchemeChart(msgspec.Struct, frozen=True):
    """Appearance of a scheme in charts."""

    colours: tuple[str, str] | None = None
    """Light and dark colour. None for the next free colour."""
    shape: str = "triangle-up"
    """Shape of the points in charts with one line per scheme."""
    lines: tuple[ChartLine, ...] = (
        ChartLine("weak first response", "weak_tentative", "dashed", "circle"),
        ChartLine("strong stable", "strong_stable", "solid", "square"),
    )


class SchemeSpec(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    create: Scheme
    description: str = ""
    guarantees: SchemeGuarantees = SchemeGuarantees()
    """Guarantees for every configuration, without the voters."""
    unreachable_probes: tuple[Probe, ...] = ()
    """Probes that replicas of the scheme never fire."""
    label: str = ""
    """Name in reports. Empty for `name`."""
    chart: SchemeChart = SchemeChart()


# --- probes that a scheme without the feature never fires -----------------------------------------

VERSION_STORE: Final = (
    Probe.LOCAL_READ,
    Probe.RUN_MERGED,
    Probe.RUN_SPLIT,
    Probe.EXECUTION_DELAYED,
    Probe.STABLE_BEFORE_PREDECESSOR,
)
"""Probes that require tentative responses from a version store."""
OPTIMISTIC_DELIVERY: Final = (Probe.DECIDED_UNPROPOSED, Probe.DECIDED_OUT_OF_PROPOSED_ORDER)
"""Probes that require an optimistic delivery."""
CAUSAL_CONTEXTS: Final = (
    Probe.MEMBERS_CHANGED,
    Probe.CHANGE_REJECTED,
    Probe.JOINED,
    Probe.REMOVED,
    Probe.MEMBERS_LEARNED_FROM_UNKNOWN,
    Probe.REMOVED_MEMBER_CAUGHT_UP,
    Probe.HANDED_OVER,
    Probe.REQUEST_AHEAD_OF_CONTEXT,
    Probe.PROPOSAL_DEFERRED,
    Probe.NOOP_ISSUED,
    Probe.PROPOSAL_HELD,
    Probe.PROPOSAL_OVERTAKEN,
    Probe.DECIDED_WHILE_HELD,
    Probe.CONTEXT_EXTENDED,
    Probe.CUT_COMMITTED,
    Probe.FIRST_VOTE_CAST,
    Probe.FIRST_VOTE_MISSED,
    Probe.FAST_DECISION,
    Probe.FIRST_VOTE_RECOVERED,
    Probe.FAST_QUORUM_CHANGED,
    Probe.FAST_PATH_PAUSED,
)
"""Probes that require causal contexts with missing requests, weak requests that wait for such a
context, or proposals with deadlines. Also probes of membership changes: the context orders
each change after the previous one."""
SPECULATION: Final = (
    Probe.ROLLED_BACK,
    Probe.REEXECUTED,
    Probe.EXECUTION_OVERTAKEN,
    Probe.STABLE_FROM_COMMIT,
)
"""Probes that require an execution before the order is decided."""
TENTATIVE_RESPONSES: Final = (Probe.TENTATIVE_AGAIN, Probe.APOLOGY)
"""Probes that require a response before the order is decided."""
RIVAL_LEADERS: Final = (
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
DELAYED_VOTES: Final = (
    Probe.PREPARE_REPEATED,
    Probe.ACCEPT_REPEATED,
    Probe.WINDOW_FULL,
    Probe.VOTE_DEFERRED,
    Probe.VOTE_OVERTAKEN,
)
"""Probes that require a delayed vote. A leader votes for its own proposal immediately, because it
proposes only requests whose predicate holds."""
