"""Images of the requests that are not final: bounded, whatever the requests write."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.server.changes.feed import ChangeFeed
from creekdb.server.changes.log import ChangeLog
from creekdb.server.changes.retention import Retention
from creekdb.server.changes.tentative import TentativeView
from creekdb.wire.changes import decode_changes
from tests.unit.server.changes.reported import ManualTurns


def make_view(path: Path, *sizes: int, bytes_max: int) -> TentativeView:
    """Return the view of a replica with requests that write values of these sizes."""
    unstable = [
        (
            Request(event, Dot(0, event), Operation("fill", (size,)), False),
            Outcome(None),
            {"a": "x" * size},
        )
        for event, size in enumerate(sizes, 1)
    ]
    replica = SimpleNamespace(view=SimpleNamespace(unstable_writes=lambda has_key: unstable))
    driver: Any = SimpleNamespace(
        apply_effects=lambda: None, executor=SimpleNamespace(lock=nullcontext()), replica=replica
    )
    log = ChangeLog(path, Retention(3600.0))
    log.open()
    return TentativeView(driver, ChangeFeed(log, ManualTurns().ports()), bytes_max=bytes_max)


def test_a_request_with_a_large_result_is_not_shown_before_it_is_final(tmp_path: Path) -> None:
    image = make_view(tmp_path, 10, 5_000, 20, bytes_max=1_000).image(None)

    assert [change.arguments for change in decode_changes(image.body)] == [(10,), (20,)]
    assert image.pending == (Dot(0, 2),)


def test_an_image_has_a_bounded_size(tmp_path: Path) -> None:
    image = make_view(tmp_path, *[400] * 20, bytes_max=1_000).image(None)

    assert len(decode_changes(image.body)) == 3
    assert len(image.body) < 2_000
