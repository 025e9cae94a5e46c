"""Images: the state of a cluster at one commit index, read in key ranges.

A replica holds its newest state only. An image of an earlier index consists of a snapshot, and of
the values that later changes replaced. The feed has them with `--before-images` on the replicas.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from creekdb.client import ChangePosition
from creekdb.client.snapshots import KeyRange, SnapshotTicket
from creekdb.errors import UsageError
from creekdb.execution.keys import collation_key
from creekdb.pipeline.source.cluster_reader import ClusterReader, IndexNotReached, Page
from creekdb.protocol.values import Key


@dataclass(frozen=True)
class Image:
    """State at `index`: a snapshot at the same index or later, and what the changes replaced."""

    index: int
    ticket: SnapshotTicket
    replaced: dict[Key, tuple[Any, ...]] = field(default_factory=dict)
    """Values at `index` of the registers that changed since: a tuple of one, or none."""

    def parts(self) -> list["ImagePart"]:
        """Return the ranges that together hold all registers."""
        return [
            ImagePart(
                self.ticket,
                bounds,
                {key: value for key, value in self.replaced.items() if _is_between(key, bounds)},
            )
            for bounds in self.ticket.ranges()
        ]


@dataclass(frozen=True)
class ImagePart:
    """Key range of an image. Any process can read it, and repeat it."""

    ticket: SnapshotTicket
    bounds: KeyRange
    replaced: dict[Key, tuple[Any, ...]]

    def pages(self, reader: ClusterReader) -> Iterator[Page]:
        """Yield the registers of the range."""
        replaced = self.replaced
        for page in reader.pages(self.ticket, self.bounds):
            yield [item for item in page if item[0] not in replaced] if replaced else page
        if replaced:
            yield [(key, value[0]) for key, value in replaced.items() if value]


def open_image(reader: ClusterReader, partitions: int, as_of: int | None = None) -> Image:
    """Open an image at `as_of`, or of the newest state. Raise `UsageError`."""
    ticket = reader.open_snapshot(partitions)
    if as_of is None or ticket.index == as_of:
        return Image(ticket.index, ticket)
    if ticket.index < as_of:
        reader.release(ticket)
        ticket = _open_later(reader, partitions, as_of)
    try:
        return Image(as_of, ticket, replaced_since(reader, as_of, ticket))
    except BaseException:
        reader.release(ticket)
        raise


def _open_later(reader: ClusterReader, partitions: int, as_of: int) -> SnapshotTicket:
    """Wait until a replica has reached an index, and open a snapshot there."""
    try:
        return reader.open_snapshot(partitions, as_of)
    except IndexNotReached as error:
        raise UsageError(
            f"option asOf is '{as_of}': {error}; set asOf to an earlier index"
        ) from None


def replaced_since(
    reader: ClusterReader, index: int, ticket: SnapshotTicket
) -> dict[Key, tuple[Any, ...]]:
    """Return the values that the registers of a snapshot had at an earlier index.

    Only registers that changed in between are included.
    """
    assert ticket.index >= index, f"a snapshot at {ticket.index} precedes {index}"
    replaced: dict[Key, tuple[Any, ...]] = {}
    start = ChangePosition(ticket.cluster, index + 1)
    for changes in reader.changes(start, ticket.index + 1, ticket.prefix):
        for change in changes:
            if change.before is None:
                raise UsageError(
                    f"the state at index {index} cannot be restored from that at {ticket.index}: "
                    "the replicas keep no values before changes; omit asOf, or start them with "
                    "--before-images"
                )
            before = dict(change.before)
            for key in (*(key for key, _ in change.writes), *change.deleted):
                if key not in replaced:
                    replaced[key] = (before[key],) if key in before else ()
    return replaced


def _is_between(key: Key, bounds: KeyRange) -> bool:
    start, stop = bounds
    position = collation_key(key)
    return (start is None or collation_key(start) <= position) and (
        stop is None or position < collation_key(stop)
    )
