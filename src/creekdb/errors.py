"""Exceptions that Creek raises on purpose.

    CreekError
    ├── UsageError              mistake of the caller; the message names the cause and the remedy
    │   ├── UnknownName         data type, operation, scheme or option that does not exist
    │   ├── BadValue            value that is out of range or cannot be serialised
    │   ├── UnknownTable        SQL table that the cluster does not have
    │   ├── MissingOperation    operation that only other replicas can execute
    │   ├── NotDeterministic    operation whose re-execution gives another result
    │   ├── SqlError            SQL statement that cannot be executed
    │   │   ├── SqlSyntaxError       text that is no statement
    │   │   ├── SqlUnknownName       table, column or function that does not exist
    │   │   ├── SqlConstraintError   row that violates a constraint
    │   │   ├── SqlTypeError         value of another type, or of none that SQL has
    │   │   ├── SqlParameterError    missing or superfluous parameters
    │   │   ├── SqlSerializationError  transaction whose reads have changed
    │   │   └── SqlUnsupported       statement that Creek refuses
    │   ├── DirectoryInUse      data directory that another process has locked
    │   └── DuplicateReplica    replica whose number another running replica has
    ├── PeerFault               another process violated the protocol
    │   └── MalformedMessage    bytes that do not decode to a message
    │       └── FrameTooLong    frame whose length exceeds the limit
    ├── StorageFault            the disk failed, or its contents are corrupt
    │   ├── DiskFull            no space left; clears once space is available
    │   └── DiskFailed          write error other than a full disk
    ├── ChangesUnavailable      the change feed cannot continue at the requested position
    │   ├── ChangesExpired      position whose changes no replica keeps any more
    │   ├── PositionInFuture    position after the last change of the cluster
    │   ├── ForeignPosition     position of another cluster, or of one that was restored
    │   └── ChangesOff          cluster whose replicas keep no changes
    ├── HelperEnded             a required program, such as Spark, exited early
    └── CallFailed              a call to a live cluster failed (`creekdb.client.errors`)

An exception inside an operation is not part of this tree. It is the result of the operation
(`protocol.request.Outcome`).
"""

from difflib import get_close_matches
from typing import Final

DECODE_ERRORS: Final = (ValueError, OverflowError, RecursionError)
"""Exceptions by which msgspec, json and tomllib reject malformed input."""
SUGGESTION_CUTOFF: Final = 0.7
"""Least similarity, between 0 and 1, at which another name is suggested."""


class CreekError(Exception):
    """Base class of all errors that Creek raises on purpose."""


class UsageError(CreekError):
    """Mistake of the caller. The message is one line that names the cause and the remedy."""


class UnknownName(UsageError):
    """Name that does not exist."""

    def __init__(self, kind: str, name: str, known: list[str] | tuple[str, ...]) -> None:
        matches = get_close_matches(name, known, n=1, cutoff=SUGGESTION_CUTOFF)
        suggestion = f"; did you mean '{matches[0]}'?" if matches else ""
        cause = f"expected one of {', '.join(known)}" if known else "none is defined"
        super().__init__(f"unknown {kind} '{name}': {cause}{suggestion}")


class BadValue(UsageError):
    """Value that is out of range or cannot be serialised."""


class UnknownTable(UsageError):
    """SQL table that the cluster does not have."""


class MissingOperation(UsageError):
    """Operation that this replica cannot execute, although the replica that issued it can."""


class NotDeterministic(UsageError):
    """Operation whose re-execution gives another result, so that replicas would diverge."""


class SqlError(UsageError):
    """SQL statement that cannot be executed, in the words of SQLite where it has some.

    `position` is the index of the character at which the error was found, or None.
    """

    def __init__(self, message: str, text: str = "", position: int | None = None) -> None:
        self.position = position
        if position is not None:
            before = text[:position]
            line, column = before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1
            message = f"{message} (line {line}, column {column})"
        super().__init__(message)


class SqlSyntaxError(SqlError):
    """Text that is not a single SQL statement."""


class SqlUnknownName(SqlError):
    """Table, column, index, collation or function that does not exist."""


class SqlConstraintError(SqlError):
    """Row that violates NOT NULL, CHECK, UNIQUE, PRIMARY KEY, FOREIGN KEY or a STRICT type."""


class SqlTypeError(SqlError):
    """Value of a type that the column, the parameter or the response cannot hold."""


class SqlParameterError(SqlError):
    """Missing or superfluous parameters of a statement."""


class SqlSerializationError(SqlError):
    """Interactive transaction that would receive other responses at its position in the order."""


class SqlUnsupported(SqlError):
    """Statement that Creek refuses. The message names the replacement."""


class DirectoryInUse(UsageError):
    """Data directory that another process has locked."""


class DuplicateReplica(UsageError):
    """Replica whose number another running replica has, usually because of a copied directory."""


class PeerFault(CreekError):
    """Violation of the protocol by another process."""


class MalformedMessage(PeerFault):
    """Bytes that do not decode to a message, or a field of the wrong type."""


class FrameTooLong(MalformedMessage):
    """Frame whose length exceeds the limit: the sender speaks another protocol."""

    def __init__(self, message: str, first_bytes: bytes) -> None:
        super().__init__(message)
        self.first_bytes = first_bytes
        """Bytes decoded as the length. In another protocol they may be the start of a command."""


class StorageFault(CreekError):
    """Disk failure, or corrupt contents on disk."""


class DiskFull(StorageFault):
    """No space left on the disk. Clears once space is available."""


class DiskFailed(StorageFault):
    """Write error of the disk other than a full disk."""


class ChangesUnavailable(CreekError):
    """Position at which the change feed cannot continue. The message names the remedy."""


class ChangesExpired(ChangesUnavailable):
    """Position whose changes no reachable replica keeps any more.

    `first_index` is the first index from which on changes are kept.
    """

    def __init__(self, message: str, first_index: int) -> None:
        super().__init__(message)
        self.first_index = first_index


class PositionInFuture(ChangesUnavailable):
    """Position after the last change of the cluster."""


class ForeignPosition(ChangesUnavailable):
    """Position of another cluster, or of the cluster before it was restored from a backup."""


class ChangesOff(ChangesUnavailable):
    """Cluster whose replicas keep no changes."""


class HelperEnded(CreekError):
    """Early exit of a required program. The message names the remedy."""
