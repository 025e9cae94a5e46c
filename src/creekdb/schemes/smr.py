"""State machine replication, which Section 6 compares Creek with, on the same broadcasts.

Every operation is ordered by indirect atomic broadcast. Delivered operations are executed
sequentially, and each one gets a stable response. Nothing is executed before its position is final,
so nothing is ever rolled back.
"""

from typing import Final

from creekdb.protocol.guarantees import SchemeGuarantees
from creekdb.protocol.request import Request
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


class SmrReplica(BasicReplica):
    has_total_order = True
    has_tentative_responses = False

    def _on_inserted(self, request: Request) -> None:
        """Do nothing: the request has no final position yet."""

    def _next_to_execute(self) -> Request | None:
        done = len(self._executed)
        return self._order.committed[done] if done < len(self._order.committed) else None


SPEC: Final = SchemeSpec(
    name="smr",
    create=SmrReplica,
    description="state machine replication: executes only what is decided",
    guarantees=SchemeGuarantees(contexts=False, tentative=False, sequential=True),
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
