"""Offsets of a stream: positions in the change feed of one cluster.

Spark keeps the offset of every micro-batch in the checkpoint of the query. A batch is the range
between two offsets, and a batch that is repeated must have the same rows. The first offset of a
query is not kept, so it must not depend on the state of the cluster. It is *open*: the end of the
first batch states where the stream begins.
"""

from dataclasses import dataclass
from typing import Any, Final

from creekdb.client.snapshots import SnapshotTicket
from creekdb.errors import BadValue, UsageError

_OPEN_INDEX: Final = 0


@dataclass(frozen=True)
class StreamOffset:
    """Position of a stream: everything before `index` has been read."""

    cluster: str = ""
    """Identity of the cluster. Empty if it is not known yet."""
    index: int = _OPEN_INDEX
    """Index of the next change."""
    snapshot: SnapshotTicket | None = None
    """Snapshot that is read by the batch that ends here."""

    @property
    def is_open(self) -> bool:
        """True for the first offset of a stream that begins at a moving position."""
        return self.index == _OPEN_INDEX

    def to_json(self) -> dict[str, Any]:
        """Return the offset as Spark stores it. Spark compares the texts of offsets."""
        snapshot = self.snapshot is not None and self.snapshot.encode()
        return {"cluster": self.cluster, "index": self.index, "snapshot": snapshot}


def parse_offset(stored: dict[str, Any]) -> StreamOffset:
    """Return an offset of a checkpoint. Raise `UsageError` if it is of another source."""
    try:
        ticket = stored["snapshot"] and SnapshotTicket.decode(stored["snapshot"])
        return StreamOffset(str(stored["cluster"]), int(stored["index"]), ticket or None)
    except (KeyError, TypeError, ValueError, BadValue):
        raise UsageError(
            f"the checkpoint has the offset {stored}, which is not one of format creek; set "
            "checkpointLocation to another directory"
        ) from None
