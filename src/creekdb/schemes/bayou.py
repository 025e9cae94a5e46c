"""Bayou: what Section 6 compares Creek with, on the same broadcasts.

Operations are executed at once, one after the other, in the order of their timestamps, and answered
tentatively. A *primary* decides the final order: that in which it receives them. It is a consensus
with one acceptor, so nobody else is asked, and without the primary nothing becomes stable.
"""

import msgspec

from creekdb.execution.datatype import DataType
from creekdb.protocol.settings import Settings
from creekdb.schemes.basic import BasicReplica


class BayouReplica(BasicReplica):
    has_total_order = True

    def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
        primary = msgspec.structs.replace(settings, acceptors=1)
        super().__init__(index, primary, datatype)
