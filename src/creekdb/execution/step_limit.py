"""Step limit of operations, applied alike by every replica.

Time differs between replicas, so steps are counted instead. A call to the transaction is a step,
and so is a register that a scan passes; the transaction always counts these. `line_counter` also
counts calls of functions, and the lines of functions with loops. It stops operations that never use
their transaction.

Lines are counted only in the package of the operation. The number of lines that the standard
library executes depends on its caches, and so on the process.

The limit protects against accidents, not against malice. It cannot stop an endless loop inside a C
function, or a loop that catches `BaseException` every time.
"""

import dis
from collections.abc import Callable
from functools import cache, lru_cache
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias

STEPS_MAX: Final = 1_000_000
"""Default step limit of a data type. So many steps take about a second."""

INTERNAL_PACKAGES: Final = (
    "creekdb.errors",
    "creekdb.execution",
    "creekdb.protocol",
    "creekdb.sql",
)

Tracer: TypeAlias = Callable[[FrameType, str, Any], Any]


class OperationStopped(BaseException):
    """Raised inside an operation that exceeds its step limit.

    Not an `Exception`: a handler for all errors of the operation must not catch it.
    """


class StepCounter:
    """Steps of a function without a transaction."""

    def __init__(self, steps_max: int) -> None:
        self._remaining = steps_max

    def step(self) -> None:
        """Count a step. Raise `OperationStopped` above the limit, at this and every later call."""
        self._remaining -= 1
        if self._remaining < 0:
            raise OperationStopped


def line_counter(module: str, step: Callable[[], None]) -> Tracer:
    """Return a function for `sys.settrace` that counts steps until `step` raises.

    It counts for operations of `module`.
    """
    package = module.partition(".")[0]

    def trace_call(frame: FrameType, event: str, argument: Any) -> Tracer | None:
        """A frame starts, or a generator's frame resumes."""
        if not _is_counted(str(frame.f_globals.get("__name__")), package):
            return None
        step()
        return trace_line if _has_loops(frame.f_code) else None

    def trace_line(frame: FrameType, event: str, argument: Any) -> Tracer:
        if event == "line":
            step()
        return trace_line

    return trace_call


@cache
def _is_counted(module: str, package: str) -> bool:
    is_inside = module == package or module.startswith(f"{package}.")
    return is_inside and not module.startswith(INTERNAL_PACKAGES)


@lru_cache(maxsize=10_000)
def _has_loops(code: CodeType) -> bool:
    return any("BACKWARD" in each.opname for each in dis.get_instructions(code))
