"""Recursion limit of operations, independent of the stack depth of the replica.

This module is not compiled: the stack of Python has no frames of compiled functions. The depth is
therefore that of the code below the operation, in both builds.
"""

import sys
from types import FrameType
from typing import Final

RECURSION_MAX: Final = 1000
"""Maximum recursion depth of an operation."""


class RecursionLimit:
    """Recursion limit of the thread while it runs an operation."""

    def __init__(self) -> None:
        self._last_stack_depth = 0

    def apply(self) -> int:
        """Set the limit for an operation that the caller runs. Return the previous limit.

        The stack is mostly as deep as for the last operation, which a single lookup confirms.
        Counting the frames costs more than a small operation.
        """
        previous = sys.getrecursionlimit()
        try:
            is_same_depth = sys._getframe(self._last_stack_depth).f_back is None
        except ValueError:  # the stack is shallower
            is_same_depth = False
        if not is_same_depth:  # the number of frames below this one
            self._last_stack_depth = _count_callers(sys._getframe())
        sys.setrecursionlimit(self._last_stack_depth + RECURSION_MAX)
        return previous


def _count_callers(frame: FrameType | None) -> int:
    """Return the number of frames below `frame`."""
    depth = -1
    while frame is not None:
        frame = frame.f_back
        depth += 1
    return depth
