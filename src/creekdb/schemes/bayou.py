"""Bayou, one of the systems that Section 6 compares Creek with, on the same broadcasts.

Operations are executed on arrival, sequentially and in timestamp order, and get a tentative
response. A *primary* decides the final order: the order in which it receives the operations. The
primary is the only acceptor of the consensus. It decides alone, and without it nothing becomes
stable.
"""

from typing import Final

import msgspec

from creekdb.execution.datatype import DataType
from creekdb.protocol.guarantees import SchemeGuarantees
from creekdb.protocol.settings import Settings
from creekdb.schemes.basic import BasicReplica
from creekdb.schemes.core.spec import (
    CAUSAL_CONTEXTS,
    DELAYED_VOTES,
    OPTIMISTIC_DELIVERY,
    RIVAL_LEADERS,
    VERSION_STORE,
    ChartLine,
    SchemeChart,
    SchemeSpec,
)

GUARANTEES: Final = SchemeGuarantees(contexts=False, sequential=True)


def create_replica(index: int, settings: Settings, datatype: DataType) -> BasicReplica:
    primary_settings = msgspec.structs.replace(settings, acceptors=1)
    return BasicReplica(index, primary_settings, datatype, GUARANTEES)


SPEC: Final = SchemeSpec(
    name="bayou",
    create=create_replica,
    description="tentative execution in timestamp order; a primary decides the final order",
    guarantees=GUARANTEES,
    unreachable_probes=(
        *VERSION_STORE,
        *OPTIMISTIC_DELIVERY,
        *CAUSAL_CONTEXTS,
        *RIVAL_LEADERS,
        *DELAYED_VOTES,
    ),
    label="Bayou",
    chart=SchemeChart(
        colours=("#7d4aa8", "#c39bea"),
        shape="cross",
        lines=(
            ChartLine("tentative", "weak_tentative", "dashed", "circle"),
            ChartLine("stable", "strong_stable", "solid", "square"),
        ),
    ),
)
