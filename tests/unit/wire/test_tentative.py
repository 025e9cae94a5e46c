"""Stages of a request, from images and final changes."""

from typing import Any

import pytest

from creekdb.protocol.ids.version_vector import Dot
from creekdb.sql.table_rows import KeyPart, TableColumn, TableDescription
from creekdb.wire.changes import Change
from creekdb.wire.tentative import StagedChange, StageTracker, staged_change_to_json

TABLE = TableDescription(
    "t", "t", (TableColumn("a", "TEXT", "TEXT", True, 0),), (KeyPart(0, "text", True),), True
)


def change(event: int, value: Any, index: int = 0, key: Any = "a") -> Change:
    writes = ((key, value),)
    return Change(index, Dot(0, event), 5, "put", (), False, None, value, None, writes, ())


def stages(events: list[StagedChange]) -> list[tuple[str, int, Any, bool]]:
    return [(each.stage, each.id.event, each.value, each.revised) for each in events]


def test_a_request_goes_from_tentative_over_revised_to_final() -> None:
    tracker = StageTracker()
    shown = [
        *tracker.add_image([change(1, 5)], (), None),
        *tracker.add_image([change(1, 5)], (), None),
        *tracker.add_image([change(1, 6), change(2, 7)], (), None),
        *tracker.add_final([change(1, 6, 10), change(2, 8, 11)], None),
    ]

    assert stages(shown) == [
        ("tentative", 1, 5, False),
        ("revised", 1, 6, True),
        ("tentative", 2, 7, False),
        ("final", 1, 6, False),
        ("final", 2, 8, True),
    ]
    assert [each.index for each in shown] == [0, 0, 0, 10, 11]
    assert tracker.open_count == 0


@pytest.mark.parametrize("other", [1.0, True, "1"])
def test_a_result_of_another_type_is_a_revision(other: Any) -> None:
    tracker = StageTracker()
    tracker.add_image([change(1, 1)], (), None)

    assert stages(tracker.add_image([change(1, other)], (), None)) == [("revised", 1, other, True)]


def test_a_request_that_awaits_its_execution_keeps_its_stage() -> None:
    tracker = StageTracker()
    tracker.add_image([change(1, 5)], (), None)

    assert tracker.add_image([], (Dot(0, 1),), None) == []
    assert tracker.add_image([change(1, 5)], (), None) == []


def test_a_request_that_is_shown_no_longer_is_withdrawn_and_may_return() -> None:
    tracker = StageTracker()
    tracker.add_image([change(1, 5)], (), None)

    assert stages(tracker.add_image([], (), None)) == [("withdrawn", 1, 5, True)]
    assert tracker.open_count == 0
    assert tracker.add_image([], (), None) == []
    assert stages(tracker.add_image([change(1, 6)], (), None)) == [("tentative", 1, 6, False)]


def test_a_final_change_without_an_earlier_stage_is_not_revised() -> None:
    assert stages(StageTracker().add_final([change(1, 5, 10)], None)) == [("final", 1, 5, False)]


def test_the_stages_of_a_table_have_its_rows() -> None:
    shown = change(1, ("x",), 0, ("sql", "t", "x"))
    (event,) = StageTracker().add_image([shown], (), TABLE)

    assert (event.table, event.rows[0].values) == ("t", {"a": "x"})
    encoded = staged_change_to_json(event)
    assert (encoded["stage"], encoded["revised"], encoded["table"]) == ("tentative", False, "t")
    assert "rows" not in staged_change_to_json(StageTracker().add_final([change(1, 5)], None)[0])
