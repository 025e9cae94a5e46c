"""Step limit of operations, applied alike by every replica.

Time differs between replicas, so steps are counted instead. A call to the transaction is a step,
and so is a register that a scan passes; the transaction always counts these. A `LineCounter` also
counts calls of functions, and the lines of functions with loops. It stops operations that never use
their transaction.

Lines are counted only in the package of the operation. The number of lines that the standard
library executes depends on its caches, and so on the process.

The limit protects against accidents, not against malice. It cannot stop an endless loop inside a C
function, or a loop that catches `BaseException` every time.
"""

import dis
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias

STEPS_MAX: Final = 1_000_000
"""Default step limit of a data type. So many steps take about a second."""

INTERNAL_PACKAGES: Final = ("creekdb.errors", "creekdb.execution", "creekdb.protocol")
_CODES_MAX: Final = 10_000

Tracer: TypeAlias = Callable[[FrameType, str, Any], Any]


class OperationStopped(BaseException):
    """Raised inside an operation that exceeds its step limit.

    Not an `Exception`: a handler for all errors of the operation must not catch it.
    """


class CountedCode:
    """Cache of the code that counts for the operations of one module, consulted at every call."""

    __slots__ = ("_loops", "_modules", "_package")

    def __init__(self, module: str) -> None:
        self._package = module.partition(".")[0]
        self._modules: dict[str, bool] = {}
        self._loops: dict[CodeType, bool] = {}

    def has_module(self, name: str) -> bool:
        counts = self._modules.get(name)
        if counts is None:
            inside = name == self._package or name.startswith(f"{self._package}.")
            counts = self._modules[name] = inside and not name.startswith(INTERNAL_PACKAGES)
        return counts

    def has_loops(self, code: CodeType) -> bool:
        loops = self._loops.get(code)
        if loops is None:
            if len(self._loops) >= _CODES_MAX:
                self._loops.clear()
            loops = any("BACKWARD" in each.opname for each in dis.get_instructions(code))
            self._loops[code] = loops
        return loops


class LineCounter:
    """Trace functions that call `step` for the lines of one operation, until `step` raises."""

    __slots__ = ("_counted", "_step")

    def __init__(self, counted: CountedCode, step: Callable[[], None]) -> None:
        self._counted = counted
        self._step = step

    def trace_call(self, frame: FrameType, event: str, argument: Any) -> Tracer | None:
        """Trace function for `sys.settrace`: a frame starts, or a generator's frame resumes."""
        if not self._counted.has_module(str(frame.f_globals.get("__name__"))):
            return None
        self._step()
        return self._trace_line if self._counted.has_loops(frame.f_code) else None

    def _trace_line(self, frame: FrameType, event: str, argument: Any) -> Tracer:
        if event == "line":
            self._step()
        return self._trace_line
