"""Errors of operations: the text that is their response, and the traces that only people read.

The response of an operation that raised is a text, equal in every process. The traceback is not a
part of it: neither the journal nor a message carries one. `ErrorTraces` reports tracebacks where
they arise, for the log of a replica and the output of a simulation.
"""

import dis
import re
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Final, NamedTuple, TypeAlias

from creekdb.execution.step_limit import INTERNAL_PACKAGES

ERROR_LENGTH_MAX: Final = 1000
TRACES_MAX: Final = 1000
"""Upper bound for the places that are remembered as reported. Later places are not reported."""
TRANSACTION_METHODS: Final = (
    *("add", "begin_scratch", "close", "delete", "get", "pending_write", "pick", "put", "restore"),
    *(
        "restrict",
        "roll_back_to",
        "savepoint",
        "scan",
        "scan_batches",
        "scan_picked",
        "sql",
        "step",
    ),
)
_MEMORY_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")
_METHOD: Final = rf"({'|'.join(TRANSACTION_METHODS)})\(\)"
_INVALID_ARGUMENTS: Final = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        rf"Transaction\.{_METHOD} (?:missing|takes|got) .*",
        rf"{_METHOD} missing required argument .* \(pos \d+\)",
        rf"{_METHOD} takes (?:no|at most|at least|exactly) .*arguments?(?: \(\d+ given\))?",
        rf"argument for {_METHOD} given by name .*",
        rf"'.*' is an invalid keyword argument for {_METHOD}",
    )
)
"""Messages for a call of a transaction: that of the interpreter, and those of compiled code."""
_READ_ONLY_ATTRIBUTE: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"property '(\w+)' of 'Transaction' object has no (?:setter|deleter)",
        r"attribute '(\w+)' of 'Transaction' objects is not writable",
    )
)
_SEPARATOR: Final = ": "
_RAISE: Final = bytes([dis.opmap["RAISE_VARARGS"]])

ErrorObserver: TypeAlias = Callable[[str, BaseException], None]
"""Function that receives the name of an operation and the exception that it raised.

It must not change the exception, nor raise one.
"""


def error_text(error: BaseException) -> str:
    """Return `TypeName: message`, equal in every process: no addresses, valid Unicode, bounded."""
    kind = type(error).__name__
    if isinstance(error, RecursionError):
        return f"{kind}: maximum recursion depth exceeded"  # the original text varies
    try:
        message = str(error)
    except BaseException as raised:
        if is_interrupt(raised):
            raise
        return kind  # a __str__ that raises is a part of the response
    message = _message_of_all_builds(error, _MEMORY_ADDRESS.sub("", message))
    message = message.encode(errors="backslashreplace").decode()
    return (f"{kind}{_SEPARATOR}{message}" if message else kind)[:ERROR_LENGTH_MAX]


def _message_of_all_builds(error: BaseException, message: str) -> str:
    """Return the message, or one that replaces it where interpreted and compiled replicas differ.

    They check the arguments of a transaction's method in different words.
    """
    if isinstance(error, TypeError):
        for pattern in _INVALID_ARGUMENTS:
            if found := pattern.fullmatch(message):
                return f"tx.{found[1]}() received too few, too many or unknown arguments"
    elif isinstance(error, AttributeError):
        for pattern in _READ_ONLY_ATTRIBUTE:
            if found := pattern.fullmatch(message):
                return f"tx.{found[1]} cannot be set or deleted"
    return message


def is_interrupt(error: BaseException) -> bool:
    """True for Ctrl-C at the terminal, which is no error of the operation."""
    return isinstance(error, KeyboardInterrupt) and not _is_raised_explicitly(error)


def _is_raised_explicitly(error: BaseException) -> bool:
    """True if a `raise` statement raised the error.

    Ctrl-C interrupts between two instructions and is never attributed to a `raise`.
    """
    traceback = error.__traceback__
    assert traceback is not None, "a caught exception has a traceback"
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    index = traceback.tb_lasti
    return traceback.tb_frame.f_code.co_code[index : index + 1] == _RAISE


class ErrorParts(NamedTuple):
    """The two parts of an error text."""

    error: str
    """Name of the exception type."""
    message: str
    """Text of the exception; empty if it has none."""


def split_error_text(text: str) -> ErrorParts:
    """Return the parts of a text from `error_text`."""
    error, _, message = text.partition(_SEPARATOR)
    return ErrorParts(error, message)


class ErrorTraces:
    """`ErrorObserver` that reports the first error of each operation at each line.

    `report` receives the name of the operation, the error text and the trace.
    """

    def __init__(
        self, report: Callable[[str, str, str], None], traces_max: int = TRACES_MAX
    ) -> None:
        self._report = report
        self._traces_max = traces_max
        self._reported: set[tuple[str, str, int]] = set()

    def __call__(self, operation: str, error: BaseException) -> None:
        place = operation, *raising_line(error.__traceback__)
        if place not in self._reported and len(self._reported) < self._traces_max:
            self._reported.add(place)
            text = error_text(error)
            try:
                trace = trace_text(error)
            except Exception:  # noqa: BLE001 - attributes that no built-in exception has
                trace = text
            self._report(operation, text, trace)


def raising_line(trace: TracebackType | None) -> tuple[str, int]:
    """Return file and line of the innermost frame outside Creek, or of the innermost frame."""
    place = "", 0
    is_internal = True
    while trace is not None:
        frame = trace.tb_frame
        is_frame_internal = _is_internal(frame.f_globals.get("__name__"))
        if is_internal or not is_frame_internal:
            place = frame.f_code.co_filename, trace.tb_lineno
            is_internal = is_frame_internal
        trace = trace.tb_next
    return place


def trace_text(error: BaseException) -> str:
    """Return the traceback as text, from the operation on."""
    trace = error.__traceback__
    while trace is not None and _is_internal(trace.tb_frame.f_globals.get("__name__")):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))


def _is_internal(module: object) -> bool:
    return isinstance(module, str) and module.startswith(INTERNAL_PACKAGES)
