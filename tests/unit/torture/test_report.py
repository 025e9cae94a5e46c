"""Report of a recorded torture."""

import re
from xml.etree import ElementTree

import msgspec

from creekdb.checkers import Illegal, Inconclusive, Ok
from creekdb.torture.report import render_report, render_timeline
from tests.unit.torture.recorded_torture import recorded_torture

SVG = "{http://www.w3.org/2000/svg}"


def test_the_timeline_labels_every_fault_without_overlap() -> None:
    picture = ElementTree.fromstring(render_timeline(recorded_torture(Ok("replay"), Ok("replay"))))

    labels = [each for each in picture.iter(f"{SVG}text") if each.get("class") == "fault"]
    assert [each.text for each in labels] == ["kill 1", "partition 0, 2"] * 2
    first, second, third, _ = (each.get("y") for each in labels)
    assert first != second
    assert first == third


def test_a_latency_curve_is_interrupted_where_no_call_was_answered() -> None:
    picture = ElementTree.fromstring(render_timeline(recorded_torture(Ok("replay"))))

    paths = [each.get("d", "") for each in picture.iter(f"{SVG}path")]
    assert [each.count("M") for each in paths] == [2, 2, 1, 1]


def test_the_page_needs_no_other_file_and_escapes_names() -> None:
    page = render_report(recorded_torture(Ok("replay")))

    assert "no violation was found" in page
    assert "a&lt;b:c" in page
    assert "a<b:c" not in page
    assert not re.search(r"(?:src|href)=", page)


def test_the_page_shows_the_counterexample_and_the_command() -> None:
    page = render_report(recorded_torture(Ok("replay"), Illegal("replay", "x < y was lost")))

    assert "a violation was found" in page
    assert "Round 1 failed" in page
    assert "x &lt; y was lost" in page
    assert "creek torture --seed 7" in page


def test_an_undecided_check_does_not_look_like_a_violation() -> None:
    page = render_report(recorded_torture(Inconclusive("linearizability", "too many steps")))

    assert '<td class="unknown">unknown: too many steps</td>' in page
    assert "no violation was found" in page


def test_the_page_shows_the_picture_of_a_counterexample() -> None:
    result = recorded_torture(Ok("sessions"), Illegal("transactions", "G2"))
    pictures = {"transactions": "<svg>cycle</svg>", "replay": "<svg>other</svg>"}
    rounds = [msgspec.structs.replace(each, pictures=pictures) for each in result.rounds]

    page = render_report(msgspec.structs.replace(result, rounds=tuple(rounds)))

    assert page.count("<svg>cycle</svg>") == 1
    assert "<svg>other</svg>" not in page


def test_the_page_shows_failures_before_the_checks() -> None:
    page = render_report(recorded_torture(Ok("replay"), failures=("UnexpectedExit: replica 2",)))

    assert "a violation was found" in page
    assert "UnexpectedExit: replica 2" in page
