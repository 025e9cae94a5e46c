"""What clients and replicas saw: the record schema, and the run folders that hold it.

Everything that reads a run takes these names from here and needs nothing else of a replica.
"""

from creek.history.folder import SCHEMA_VERSION, load, save, save_verdicts
from creek.history.records import (
    NOOP,
    Answer,
    CabDelivered,
    Cast,
    Committed,
    Dot,
    Dots,
    Event,
    FinalState,
    History,
    Installed,
    Key,
    Kind,
    LoggedEvent,
    Observed,
    Operation,
    OperationRecord,
    Outcome,
    RbDelivered,
    ReplicaLog,
    Request,
)

__all__ = [
    "NOOP",
    "SCHEMA_VERSION",
    "Answer",
    "CabDelivered",
    "Cast",
    "Committed",
    "Dot",
    "Dots",
    "Event",
    "FinalState",
    "History",
    "Installed",
    "Key",
    "Kind",
    "LoggedEvent",
    "Observed",
    "Operation",
    "OperationRecord",
    "Outcome",
    "RbDelivered",
    "ReplicaLog",
    "Request",
    "load",
    "save",
    "save_verdicts",
]
