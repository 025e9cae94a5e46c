"""What comes of running a request, before anything of it counts."""

from typing import Any

import msgspec

from creekdb.protocol.request import Outcome
from creekdb.protocol.values import Key


class ExecutionResult(msgspec.Struct, frozen=True):
    """What running a request gave: its answer, what it would write, and what it cost."""

    outcome: Outcome
    writes: dict[Key, Any] = {}
    """The last value written per key, `ABSENT` for a deletion. Empty when the operation raised."""
    read_count: int = 0
    """Registers read one by one."""
    scan_count: int = 0
    """Registers read by scans."""
    blind_adds: dict[Key, int] = {}
    """What is to be added to registers that were not looked at. Empty when it raised."""
    read_set: Any = None
    """What the store wants to know of it when it is to be installed."""
