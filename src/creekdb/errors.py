"""Every error that Creek raises on purpose.

    CreekError
    ├── UsageError              the caller's mistake: says what is wrong and what is allowed
    │   ├── UnknownName         a data type, operation, scheme or option that does not exist
    │   ├── BadValue            an argument out of range, or one that cannot be sent
    │   ├── MissingOperation    an operation that only other replicas can carry out
    │   ├── NotDeterministic    an operation that does something else when it is executed again
    │   └── DirectoryInUse      a folder that another process has
    ├── PeerFault               another process sent what it must not send
    │   └── MalformedMessage    bytes that are not one of our messages
    │       └── FrameTooLong    a length that is more than is read
    ├── StorageFault            the disk failed, or holds what we did not write
    │   ├── DiskFull            there is no space; goes away by itself when there is
    │   └── DiskFailed          it refused to write, for another reason
    ├── HelperEnded             another program that is needed, such as Spark, ended too early
    └── CallFailed              a call to a live cluster has no answer (`creekdb.client.errors`)

An operation that raises is none of these: its error is its answer (`protocol.request.Outcome`).
"""

from difflib import get_close_matches
from typing import Final

SUGGESTION_CUTOFF: Final = 0.7
"""From which likeness on, between 0 and 1, another name is worth a suggestion."""


class CreekError(Exception):
    """The root of the tree."""


class UsageError(CreekError):
    """The caller's mistake. The message is one line and says what to do."""


class UnknownName(UsageError):
    """A name that does not exist."""

    def __init__(self, what: str, name: str, known: list[str] | tuple[str, ...]) -> None:
        likely = get_close_matches(name, known, n=1, cutoff=SUGGESTION_CUTOFF)
        meant = f"; did you mean '{likely[0]}'?" if likely else ""
        super().__init__(f"unknown {what} '{name}': known are {', '.join(known) or 'none'}{meant}")


class BadValue(UsageError):
    """A value out of range, or one that cannot be sent."""


class MissingOperation(UsageError):
    """An operation that another replica could carry out when it was called, and this one cannot."""


class NotDeterministic(UsageError):
    """An operation that does something else when it is executed again: replicas would differ."""


class DirectoryInUse(UsageError):
    """Another process has this folder."""


class PeerFault(CreekError):
    """Another process sent what it must not send."""


class MalformedMessage(PeerFault):
    """Bytes that are not one of our messages, or a field of the wrong type."""


class FrameTooLong(MalformedMessage):
    """Its length says more than is allowed: whoever sent it does not speak our language."""

    def __init__(self, message: str, begins: bytes) -> None:
        super().__init__(message)
        self.first_bytes = begins
        """What was taken for its length: in another language it may be the first word."""


class StorageFault(CreekError):
    """The disk failed, or holds what we did not write."""


class DiskFull(StorageFault):
    """There is no space. Goes away by itself when there is."""


class DiskFailed(StorageFault):
    """The disk refused to write, for another reason than space."""


class HelperEnded(CreekError):
    """Another program that is needed ended before its time. The message says what to do."""
