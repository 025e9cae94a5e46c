"""Result of an execution, before the store installs it."""

from typing import Any

import msgspec

from creekdb.protocol.request import Outcome
from creekdb.protocol.values import Key


class ExecutionResult(msgspec.Struct, frozen=True):
    """Outcome, writes and cost of one execution."""

    outcome: Outcome
    writes: dict[Key, Any] = {}
    """Last value written per key, `ABSENT` for a deletion. Empty if the operation raised."""
    read_count: int = 0
    """Number of registers read one by one."""
    scan_count: int = 0
    """Number of registers read by scans."""
    blind_adds: dict[Key, int] = {}
    """Amounts to add to registers that were not read. Empty if the operation raised."""
    read_set: Any = None
    """Record of the reads that the store needs to install the result."""
