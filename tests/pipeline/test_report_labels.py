"""Labels at the ends of lines, and the note on loads that a grid leaves out."""

from typing import Any

from creekdb.pipeline.report.charts import Axis, curves
from creekdb.pipeline.report.charts.layers import PLAIN_LABEL
from creekdb.pipeline.report.charts.plots import END_LABEL_GAP_PX, ThroughputChart, label_ends
from creekdb.pipeline.report.figures import DENSE_LOADS_MIN, Figure

LOG = Axis("x", PLAIN_LABEL, [100, 10_000], logarithmic=True)
LINEAR = Axis("x", PLAIN_LABEL, [100, 10_000], low=0)
Y = Axis("y", PLAIN_LABEL, [0, 1], low=0, high=1)


def row(line: str, throughput: float, value: float, **more: Any) -> dict[str, Any]:
    fields = {"line": line, "statistic": "mean", "throughput": throughput, "value": value}
    return fields | {"saturated": False} | more


ROWS = [
    *(row("upper", 1000 * n, 0.52) for n in range(2, 6)),
    *(row("lower", 1000 * n, 0.5) for n in range(2, 6)),
]


def labelled(x: Axis) -> dict[str, dict[str, Any]]:
    return {each["line"]: each for each in label_ends(ROWS, x, Y, 300) if "shift" in each}


def test_each_line_has_one_label_at_the_end_that_is_free() -> None:
    for x, throughput in ((LOG, 2000), (LINEAR, 5000)):
        ends = labelled(x)
        assert {name: each["throughput"] for name, each in ends.items()} == {
            "upper": throughput,
            "lower": throughput,
        }
    assert "shift" not in ROWS[0]


def test_labels_of_close_lines_do_not_overlap() -> None:
    ends = labelled(LINEAR)
    places = {name: 300 * (1 - each["value"]) + each["shift"] for name, each in ends.items()}
    assert places["lower"] - places["upper"] >= END_LABEL_GAP_PX - 0.1


def figure(rows: list[dict[str, Any]]) -> Figure:
    chart = ThroughputChart(rows, list[curves.CurveStyle](), LINEAR, Y, "", "")
    return Figure("figure", "Figure", chart)


def test_sparse_and_unsaturated_lines_are_explained() -> None:
    assert figure(ROWS).gaps == (
        "Each line connects 4 measured loads; its course between is unknown. All lines end before "
        "saturation. The grid of the paper measures more loads."
    )
    last = row("upper", 6000, 1, saturated=True)
    assert "One line ends before saturation." in figure([*ROWS, last]).gaps


def test_dense_lines_up_to_saturation_need_no_note() -> None:
    dense = [row("only", 1000 * n, 0.5) for n in range(1, DENSE_LOADS_MIN)]
    assert figure([*dense, row("only", 9000, 1, saturated=True)]).gaps == ""
