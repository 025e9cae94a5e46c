"""Creek: a replicated transactional store in which every operation chooses its own consistency.

This module exports the public names. Everything else may change without notice.

>>> import creekdb
>>> guestbook = creekdb.DataType("guestbook")
>>> @guestbook.operation
... def sign(tx: creekdb.Transaction, name: str) -> int:
...     tx.add("guests", 1)
...     tx.put(("guest", tx.get("guests")), name)
...     return tx.get("guests")
>>> guestbook.sequential().call("sign", "ann")
1
"""

from importlib.metadata import version as _version

from creekdb import checkout as checkout  # before other modules, which it may find compiled
from creekdb.client import (
    CallFailed,
    Change,
    ChangePosition,
    Database,
    NotDone,
    OperationFailed,
    SnapshotTicket,
    StagedChange,
    TableChange,
    Unknown,
    connect,
)
from creekdb.errors import (
    BadValue,
    ChangesExpired,
    ChangesOff,
    ChangesUnavailable,
    CreekError,
    ForeignPosition,
    MalformedMessage,
    PeerFault,
    PositionInFuture,
    StorageFault,
    UnknownName,
    UsageError,
)
from creekdb.execution.datatype import DataType
from creekdb.execution.sequential import OperationRaised, Sequential
from creekdb.execution.transaction import Transaction
from creekdb.protocol.request import Operation, Outcome

__version__ = _version("creekdb")

__all__ = [
    "BadValue",
    "CallFailed",
    "Change",
    "ChangePosition",
    "ChangesExpired",
    "ChangesOff",
    "ChangesUnavailable",
    "CreekError",
    "DataType",
    "Database",
    "ForeignPosition",
    "MalformedMessage",
    "NotDone",
    "Operation",
    "OperationFailed",
    "OperationRaised",
    "Outcome",
    "PeerFault",
    "PositionInFuture",
    "Sequential",
    "SnapshotTicket",
    "StagedChange",
    "StorageFault",
    "TableChange",
    "Transaction",
    "Unknown",
    "UnknownName",
    "UsageError",
    "__version__",
    "connect",
]
