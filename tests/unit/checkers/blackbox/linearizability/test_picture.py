from itertools import pairwise
from xml.etree import ElementTree

from creekdb.checkers.blackbox.linearizability.checker import check_linearizability
from creekdb.checkers.blackbox.linearizability.counterexample import Counterexample
from creekdb.checkers.blackbox.linearizability.picture import CALLS_MAX, counterexample_svg
from creekdb.checkers.blackbox.linearizability.plain_models import get_model
from creekdb.checkers.blackbox.observations import ObservedCall, ObservedRun
from tests.unit.checkers.blackbox.observed_histories import call

SVG = "{http://www.w3.org/2000/svg}"


def drawing(*calls: ObservedCall) -> ElementTree.Element:
    run = ObservedRun(datatype="register", calls=calls)
    found = check_linearizability(run, get_model("register")).counterexample
    assert isinstance(found, Counterexample)
    return ElementTree.fromstring(counterexample_svg(found))


def texts(picture: ElementTree.Element, kind: str) -> list[str]:
    return [each.text or "" for each in picture.iter(f"{SVG}text") if each.get("class") == kind]


def bars(picture: ElementTree.Element, kind: str) -> list[tuple[float, float, float]]:
    """Return the left and right edge and the lane of each bar of a kind."""
    rectangles = [group.find(f"{SVG}rect") for group in picture.iter(f"{SVG}g")]
    return [
        (float(each.get("x", "")), float(each.get("width", "")), float(each.get("y", "")))
        for each in rectangles
        if each is not None and each.get("class") == kind
    ]


def test_the_call_that_cannot_be_placed_is_marked() -> None:
    picture = drawing(
        call("a", "write", 1, at=(0, 10)),
        call("b", "write", 2, at=(5, None)),
        call("a", "read", at=(20, 30), value=2),
        call("<c>", "read", at=(40, 50), value=1),
    )
    assert texts(picture, "title") == ["Not linearizable: no order explains read → 1"]
    assert texts(picture, "impossible") == ["read → 1"]
    assert texts(picture, "lane") == ["<c>", "a", "b"]
    assert len(bars(picture, "blocked")) == 1
    assert len(bars(picture, "placed")) + len(bars(picture, "placed open")) == len(
        texts(picture, "number")
    )


def test_bars_of_one_lane_do_not_overlap() -> None:
    calls = [call("a", "write", n, at=(10 * n, 10 * n + 9)) for n in range(4)]
    overlapping = [call("a", "write", 100 + n, at=(0, 40)) for n in range(3)]
    picture = drawing(*calls, *overlapping, call("b", "read", at=(0, 60), value=-1))
    by_lane: dict[float, list[tuple[float, float]]] = {}
    for x, width, y in [*bars(picture, "placed"), *bars(picture, "free")]:
        by_lane.setdefault(y, []).append((x, x + width))
    assert sum(map(len, by_lane.values())) == 7
    assert len(by_lane) == 4
    for spans in by_lane.values():
        spans.sort()
        assert all(end < start for (_, end), (start, _) in pairwise(spans))


def test_large_counterexamples_show_their_last_calls() -> None:
    calls = [call(f"c{n}", "write", n, at=(n, None)) for n in range(60)]
    picture = drawing(*calls, call("b", "read", at=(100, 110), value=-1))
    assert len(list(picture.iter(f"{SVG}g"))) == CALLS_MAX
    assert "21 more calls take part and are not drawn." in texts(picture, "note")
