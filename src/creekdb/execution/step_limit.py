"""When an operation has run for too long: a limit that every replica applies alike.

Time differs from replica to replica, so steps are counted instead. A call to the transaction is
one, and so is a register that a scan passes: the transaction counts these always. A `LineCounter`
makes calls of functions steps, too, and lines of those that loop: then an operation that never
looks at its transaction is stopped as well.

Lines are counted in the package that the operation is from, and nowhere else. How many lines the
standard library takes depends on what it remembers of earlier calls, and so on the process.

This is for accidents, not against malice: a loop without end inside a call of a C function, or one
that catches `BaseException` each time, goes on.
"""

import dis
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias

STEPS_MAX: Final = 1_000_000
"""Unless the data type says otherwise. It takes about a second."""

INTERNAL_PACKAGES: Final = ("creekdb.errors", "creekdb.execution", "creekdb.protocol")
_CODES_MAX: Final = 10_000

Tracer: TypeAlias = Callable[[FrameType, str, Any], Any]


class OperationStopped(BaseException):
    """Raised inside an operation that has used up its steps. No `Exception`: what handles every
    error of the operation's own must not handle this one."""


class CountedCode:
    """Which code counts for the operations of one module, remembered: it is asked at every call."""

    __slots__ = ("_loops", "_modules", "_package")

    def __init__(self, module: str) -> None:
        self._package = module.partition(".")[0]
        self._modules: dict[str, bool] = {}
        self._loops: dict[CodeType, bool] = {}

    def has_module(self, name: str) -> bool:
        known = self._modules.get(name)
        if known is None:
            inside = name == self._package or name.startswith(f"{self._package}.")
            known = self._modules[name] = inside and not name.startswith(INTERNAL_PACKAGES)
        return known

    def has_loops(self, code: CodeType) -> bool:
        known = self._loops.get(code)
        if known is None:
            if len(self._loops) >= _CODES_MAX:
                self._loops.clear()
            known = any("BACKWARD" in each.opname for each in dis.get_instructions(code))
            self._loops[code] = known
        return known


class LineCounter:
    """The lines of one operation. `step` is called for each, and raises after the last one."""

    __slots__ = ("_counted", "_step")

    def __init__(self, counted: CountedCode, step: Callable[[], None]) -> None:
        self._counted = counted
        self._step = step

    def trace_call(self, frame: FrameType, event: str, argument: Any) -> Tracer | None:
        """For `sys.settrace`: a frame begins, or that of a generator goes on."""
        if not self._counted.has_module(str(frame.f_globals.get("__name__"))):
            return None
        self._step()
        return self._trace_line if self._counted.has_loops(frame.f_code) else None

    def _trace_line(self, frame: FrameType, event: str, argument: Any) -> Tracer:
        if event == "line":
            self._step()
        return self._trace_line
