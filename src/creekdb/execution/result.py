"""Result of an execution, before the store installs it."""

from typing import Any

from creekdb.protocol.request import Outcome
from creekdb.protocol.values import Key


class ExecutionResult:  # noqa: PLW1641 - compared in tests, never a key
    """Outcome, writes and cost of one execution. Not modified once the execution has ended."""

    __slots__ = ("blind_adds", "outcome", "read_count", "read_set", "scan_count", "writes")

    def __init__(
        self,
        outcome: Outcome,
        writes: dict[Key, Any] | None = None,
        read_count: int = 0,
        scan_count: int = 0,
        blind_adds: dict[Key, int] | None = None,
        read_set: Any = None,
    ) -> None:
        self.outcome = outcome
        self.writes: dict[Key, Any] = {} if writes is None else writes
        """Last value written per key, `ABSENT` for a deletion. Empty if the operation raised."""
        self.read_count = read_count
        """Number of registers read one by one."""
        self.scan_count = scan_count
        """Number of registers read by scans."""
        self.blind_adds: dict[Key, int] = {} if blind_adds is None else blind_adds
        """Amounts to add to registers that were not read. Empty if the operation raised."""
        self.read_set = read_set
        """Record of the reads that the store needs to install the result."""

    def with_read_set(self, read_set: Any) -> "ExecutionResult":
        """Return the result with this record of the reads."""
        return ExecutionResult(
            self.outcome,
            self.writes,
            self.read_count,
            self.scan_count,
            self.blind_adds,
            read_set,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionResult) and self._fields() == other._fields()

    def __repr__(self) -> str:
        return f"ExecutionResult{self._fields()!r}"

    def _fields(self) -> tuple[Any, ...]:
        return (
            self.outcome,
            self.writes,
            self.read_count,
            self.scan_count,
            self.blind_adds,
            self.read_set,
        )
