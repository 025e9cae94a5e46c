"""State machine replication, which Section 6 compares Creek with, on the same broadcasts.

Every operation is ordered by indirect atomic broadcast. Delivered operations are executed
sequentially, and each one gets a stable response. Nothing is executed before its position is final,
so nothing is ever rolled back.
"""

from typing import Final

from creekdb.execution.datatype import DataType
from creekdb.protocol.guarantees import SchemeGuarantees
from creekdb.protocol.settings import Settings
from creekdb.schemes.basic import BasicReplica
from creekdb.schemes.core.spec import (
    CAUSAL_CONTEXTS,
    OPTIMISTIC_DELIVERY,
    SPECULATION,
    TENTATIVE_RESPONSES,
    VERSION_STORE,
    ChartLine,
    SchemeChart,
    SchemeSpec,
)

GUARANTEES: Final = SchemeGuarantees(contexts=False, tentative=False, sequential=True)


def create_replica(index: int, settings: Settings, datatype: DataType) -> BasicReplica:
    return BasicReplica(index, settings, datatype, GUARANTEES)


SPEC: Final = SchemeSpec(
    name="smr",
    create=create_replica,
    description="state machine replication: executes only what is decided",
    guarantees=GUARANTEES,
    unreachable_probes=(
        *VERSION_STORE,
        *OPTIMISTIC_DELIVERY,
        *CAUSAL_CONTEXTS,
        *SPECULATION,
        *TENTATIVE_RESPONSES,
    ),
    label="SMR",
    chart=SchemeChart(
        colours=("#5f6773", "#a9b2bf"),
        shape="diamond",
        lines=(ChartLine("", "all_done", "solid", "diamond"),),
    ),
)
