"""Recursion limit of operations, independent of the stack depth of the replica.

This module is not compiled: the stack of Python has no frames of compiled functions. The depth is
therefore that of the code below the operation, in both builds.
"""

import sys
from typing import Final

RECURSION_MAX: Final = 1000
"""Maximum recursion depth of an operation."""


class RecursionLimit:
    """Recursion limit of the thread while it runs an operation."""

    def __init__(self) -> None:
        self._last_stack_depth = 0

    def apply(self) -> int:
        """Set the limit for an operation that the caller runs. Return the previous limit."""
        previous = sys.getrecursionlimit()
        sys.setrecursionlimit(self._stack_depth() + RECURSION_MAX)
        return previous

    def _stack_depth(self) -> int:
        """Return the number of frames on the stack, up to the caller of `apply`.

        The depth is mostly that of the last call, which a single lookup confirms. Counting the
        frames costs more than a small operation.
        """
        try:
            if sys._getframe(self._last_stack_depth).f_back is None:
                return self._last_stack_depth - 1
        except ValueError:  # the stack is shallower
            self._last_stack_depth = 0
        frame = sys._getframe()
        depth = 0
        while (caller := frame.f_back) is not None:
            frame = caller
            depth += 1
        self._last_stack_depth = depth
        return depth - 1
