"""Bayou, one of the systems that Section 6 compares Creek with, on the same broadcasts.

Operations are executed on arrival, sequentially and in timestamp order, and get a tentative
response. A *primary* decides the final order: the order in which it receives the operations. The
primary is the only acceptor of the consensus. It decides alone, and without it nothing becomes
stable.
"""

import msgspec

from creekdb.execution.datatype import DataType
from creekdb.protocol.settings import Settings
from creekdb.schemes.basic import BasicReplica


class BayouReplica(BasicReplica):
    has_total_order = True

    def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
        primary_settings = msgspec.structs.replace(settings, acceptors=1)
        super().__init__(index, primary_settings, datatype)
