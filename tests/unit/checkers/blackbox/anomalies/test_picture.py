"""Pictures of anomalies."""

from xml.etree import ElementTree

import pytest

from creekdb.checkers.blackbox.anomalies.checker import find_anomalies
from creekdb.checkers.blackbox.anomalies.picture import BOX_WIDTH, render_anomaly
from tests.unit.checkers.blackbox.transaction_runs import concurrent_run, consecutive_run

SVG = "{http://www.w3.org/2000/svg}"
WRITE_SKEW = concurrent_run(
    [("r", "<x>", ()), ("append", "y", 1)],
    [("r", "y", ()), ("append", "<x>", 1)],
    [("r", "<x>", (1,)), ("r", "y", (1,))],
)
RING = concurrent_run(
    *([("append", f"k{n}", 1), ("append", f"k{(n + 1) % 5}", 2)] for n in range(5)),
    *([("r", f"k{n}", (1, 2))] for n in range(5)),
)
LOST_APPEND = consecutive_run([("append", "x", 1)], [("r", "x", ())])


def texts(picture: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in picture.iter(f"{SVG}text")]


def test_a_cycle_has_a_box_per_transaction_and_an_arrow_per_edge() -> None:
    (anomaly,) = find_anomalies(WRITE_SKEW)
    picture = ElementTree.fromstring(render_anomaly(anomaly))

    assert len(list(picture.iter(f"{SVG}path"))) == len(anomaly.cycle) == 2
    written = texts(picture)
    assert "G2" in written
    assert "strongest model left: snapshot isolation" in written
    assert {"T0, committed", "T1, committed", "1 rw", "2 rw", "r <x> []"} <= {*written}
    assert any(each.startswith("1  T0 read before the write of T1") for each in written)


@pytest.mark.parametrize("run", [WRITE_SKEW, RING, LOST_APPEND])
def test_boxes_neither_overlap_nor_leave_the_picture(run: object) -> None:
    picture = ElementTree.fromstring(render_anomaly(find_anomalies(run)[0]))  # type: ignore[arg-type]

    width, height = (float(picture.get(each, "0")) for each in ("width", "height"))
    boxes = [
        tuple(float(each.get(name, "0")) for name in ("x", "y", "width", "height"))
        for each in picture.iter(f"{SVG}rect")
        if each.get("width") == str(BOX_WIDTH)
    ]
    for index, (x, y, box_width, box_height) in enumerate(boxes):
        assert 0 <= x <= width - box_width
        assert 0 <= y <= height - box_height
        for other_x, other_y, *_ in boxes[:index]:
            assert abs(x - other_x) >= box_width or abs(y - other_y) >= box_height


def test_an_anomaly_without_a_cycle_has_no_arrows() -> None:
    anomaly = find_anomalies(LOST_APPEND)[0]
    picture = ElementTree.fromstring(render_anomaly(anomaly))

    assert not list(picture.iter(f"{SVG}path"))
    assert any("no read contains it" in each for each in texts(picture))
