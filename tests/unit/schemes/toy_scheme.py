"""A scheme in one file: Basic Creek whose registers are checkpointed often."""

from msgspec.structs import replace

from creekdb.execution.datatype import DataType
from creekdb.protocol.guarantees import SchemeGuarantees
from creekdb.protocol.settings import Settings
from creekdb.schemes.basic import BasicReplica
from creekdb.schemes.core.replica import Replica
from creekdb.schemes.core.spec import OPTIMISTIC_DELIVERY, VERSION_STORE, SchemeChart, SchemeSpec


def create_toy(index: int, settings: Settings, datatype: DataType) -> Replica:
    return BasicReplica(index, replace(settings, checkpoint_every=8), datatype)


SPEC = SchemeSpec(
    name="toy",
    create=create_toy,
    description="checkpoints after eight requests",
    guarantees=SchemeGuarantees(sequential=True),
    unreachable_probes=(*VERSION_STORE, *OPTIMISTIC_DELIVERY),
    label="Toy",
    chart=SchemeChart(colours=("#123456", "#abcdef"), shape="cross"),
)
