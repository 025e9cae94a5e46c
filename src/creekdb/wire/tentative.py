"""View of the change feed that also shows tentative results: from tentative to final.

A replica sends *images*: the requests that are executed and not final there, in their order, with
their current responses and writes, as far as they write selected registers. A reader compares each
image with what it has seen. So a replica keeps nothing for its readers, and a slow reader merely
skips intermediate results.

Stages of a request:

- `tentative`: the order of the replica shows the request for the first time.
- `revised`: its re-execution gave another response or other writes.
- `withdrawn`: the order shows it no longer. Its re-execution writes no selected register, or the
  reader continues at a replica that has not received it. It may return as `tentative`.
- `final`: it is committed and its result never changes. Each committed request that writes selected
  registers has exactly one such event, in commit order.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.values import is_same_value
from creekdb.sql.table_rows import TableDescription
from creekdb.wire.changes import Change, change_to_json
from creekdb.wire.table_changes import TableChange, make_table_change, table_change_to_json

TENTATIVE: Final = "tentative"
REVISED: Final = "revised"
WITHDRAWN: Final = "withdrawn"
FINAL: Final = "final"
STAGES: Final = (TENTATIVE, REVISED, WITHDRAWN, FINAL)

TENTATIVE_VIEW: Final = "tentative"
VIEWS: Final = ("", TENTATIVE_VIEW)
"""Views of the feed; the empty one shows final changes only."""


class TentativeImage(msgspec.Struct, frozen=True, array_like=True):
    """Requests that are not final at a replica."""

    stamp: int
    """Checksum of the other fields. Equal images have equal stamps."""
    body: bytes
    """Encoded list of changes with index 0, in the order of the replica."""
    pending: tuple[Dot, ...]
    """Requests whose execution, or whose entry in the feed, is awaited."""


class StagedChange(TableChange, frozen=True, array_like=True):
    """Change with its stage. Its `index` is 0 unless it is final.

    `rows` and `table` are set if the reader selects a table.
    """

    stage: str = FINAL
    revised: bool = False
    """True if the result differs from the last one that the reader has seen."""


class StageTracker:
    """Requests that a reader has seen and that are not final."""

    def __init__(self) -> None:
        self._seen: dict[Dot, Change] = {}

    @property
    def open_count(self) -> int:
        return len(self._seen)

    def add_final(
        self, changes: Iterable[Change], table: TableDescription | None
    ) -> list[StagedChange]:
        """Return the events of committed changes."""
        events = []
        for change in changes:
            seen = self._seen.pop(change.id, None)
            revised = seen is not None and not _is_same_result(seen, change)
            events.append(_staged(change, table, FINAL, revised))
        return events

    def add_image(
        self, changes: Sequence[Change], pending: Iterable[Dot], table: TableDescription | None
    ) -> list[StagedChange]:
        """Return the events of an image, given as its decoded changes."""
        shown = {change.id for change in changes}.union(pending)
        events = [
            _staged(seen, table, WITHDRAWN, True)
            for id, seen in self._seen.items()
            if id not in shown
        ]
        for event in events:
            del self._seen[event.id]
        for change in changes:
            seen = self._seen.get(change.id)
            if seen is None:
                events.append(_staged(change, table, TENTATIVE, False))
            elif not _is_same_result(seen, change):
                events.append(_staged(change, table, REVISED, True))
            self._seen[change.id] = change
        return events


def _is_same_result(left: Change, right: Change) -> bool:
    return left.error == right.error and is_same_value(
        (left.value, left.writes, left.deleted), (right.value, right.writes, right.deleted)
    )


def _staged(
    change: Change, table: TableDescription | None, stage: str, revised: bool
) -> StagedChange:
    fields: dict[str, Any] = msgspec.structs.asdict(
        change if table is None else make_table_change(change, table)
    )
    return StagedChange(**fields, stage=stage, revised=revised)


def staged_change_to_json(change: StagedChange) -> dict[str, Any]:
    """Return a change as JSON values, with its stage."""
    content = table_change_to_json(change) if change.table else change_to_json(change)
    return {"stage": change.stage, "revised": change.revised, **content}
