"""The page and its pictures, from tables in a folder."""

import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from creekdb.checkers.registry import CHECKERS
from creekdb.errors import StorageFault, UsageError
from creekdb.evaluation import Experiment
from creekdb.pipeline.report import write_report
from creekdb.pipeline.report.charts.layers import DECADE_STEPS_FROM, PLAIN_LABEL, Axis
from creekdb.pipeline.report.charts.theme import (
    INK_COLOURS,
    OTHER_COLOURS,
    SCHEME_COLOURS,
    css_name,
)
from creekdb.pipeline.report.checks import CHECKER_DESCRIPTIONS
from creekdb.pipeline.report.claims import ClaimStatus, evaluate_claims, tally_text
from creekdb.pipeline.report.evidence import Evidence, ReportTables
from creekdb.pipeline.report.page import render_page
from creekdb.pipeline.report.queries import QueryResult
from creekdb.pipeline.report.summary import _latency_sentences
from creekdb.pipeline.stages import relational_checks
from creekdb.pipeline.stages.verify import MISSING_EVENTS_CHECK, TPCC_CONDITIONS
from tests.pipeline.made_up import SPLIT, tables, write

HOSTILE = "</script><img src=x onerror=alert(1)><!--{{ 7 * 7 }}\"'&"


def few(scheme: str = "creek", seeds: int = 2, **varied: object) -> list[Experiment]:
    return [
        Experiment(scheme=scheme, seed=seed, load_tps=load, **varied)  # type: ignore[arg-type]
        for load in (1_000.0, 2_500.0, 20_000.0, 40_000.0)
        for seed in range(seeds)
    ]


def shown(made: ReportTables) -> str:
    evidence = Evidence(made)
    return render_page(evidence, evaluate_claims(evidence))


def charts_of(text: str) -> dict[str, dict[str, object]]:
    found = re.search(r'<script type="application/json" id="charts">(.*?)</script>', text, re.S)
    assert found is not None
    charts: dict[str, dict[str, object]] = json.loads(found[1])
    return charts


def words_of(text: str) -> str:
    """What a reader sees, without any script."""

    class Reader(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.words: list[str] = []
            self.silent = False
            self.tags: list[tuple[str, dict[str, str | None]]] = []

        def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
            self.silent = tag in ("script", "style")
            self.tags.append((tag, dict(attrs)))

        def handle_endtag(self, tag: str) -> None:
            self.silent = False

        def handle_data(self, data: str) -> None:
            if not self.silent:
                self.words.append(data)

    reader = Reader()
    reader.feed(text)
    assert not [tag for tag, _ in reader.tags if tag in ("img", "iframe", "object", "embed")]
    for tag, attributes in reader.tags:
        for name in ("src", "href"):
            address = attributes.get(name) or "#"
            assert address.startswith(("#", "data:")), (tag, address)
    return " ".join(" ".join(reader.words).split())


def test_a_report_leaves_a_page_and_pictures(tmp_path: Path) -> None:
    written = write_report(write(tables(few() + few("smr")), tmp_path))

    assert written.page == tmp_path / "report.html"
    assert "not measured" in written.summary[0]
    pictures = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert pictures == [f"figure-1{letter}.{kind}" for letter in "abc" for kind in ("png", "svg")]
    for path in (tmp_path / "figures").glob("*.svg"):
        drawn = path.read_text()
        assert "Creek" in drawn
        assert "var(--" not in drawn
    assert (tmp_path / "figures" / "figure-1a.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_tables_give_the_same_page(tmp_path: Path) -> None:
    made = tables(few())

    assert shown(made) == shown(made)


def test_a_page_has_the_numbers_of_the_tables() -> None:
    made = tables(few())
    for row in made.summary:
        if row["measure"] == "weak_tentative_mean_us":
            row["mean"] = 543.2
    told = words_of(shown(made))

    assert "0.54 ms" in told
    assert "creek simulate --workload tpcc --scheme creek --load 20000" in told
    assert "not measured" in told


def test_a_scheme_that_is_missing_leaves_its_lines_out() -> None:
    charts = charts_of(shown(tables(few("smr"))))

    rows = charts["figure-1a"]["spec"]["datasets"]["rows"]  # type: ignore[index]
    assert {row["line"] for row in rows} == {"SMR"}
    assert "figure-1b" not in charts


def test_a_scheme_of_somebody_else_gets_a_curve_and_a_colour() -> None:
    made = tables(few() + few("archie"))
    for table in (made.measures, made.summary, made.peaks, made.runs):
        for row in table:
            row["scheme"] = row["scheme"].replace("archie", "my own")
    text = shown(made)

    rows = charts_of(text)["figure-1a"]["spec"]["datasets"]["rows"]  # type: ignore[index]
    assert "my own, weak first answer" in {row["line"] for row in rows}
    assert f"--{css_name('scheme-my own')}:{OTHER_COLOURS[0][0]};" in text


def test_one_seed_is_told_as_one_seed() -> None:
    text = shown(tables(few(seeds=1)))

    assert "one seed only" in words_of(text)
    assert "NaN" not in words_of(text)


def test_where_most_statements_are_open_it_says_how_to_have_them_all_measured() -> None:
    judged = evaluate_claims(Evidence(tables(few())))
    everything = [each._replace(status=ClaimStatus.HOLDS) for each in judged]

    assert tally_text(judged).endswith("“make reproduce” runs all of them.")
    assert "make reproduce" not in tally_text(everything)


def test_nulls_in_the_measures_are_no_points() -> None:
    made = tables(few())
    for row in made.measures:
        row["accuracy"] = row["execution_ratio"] = row["saturated"] = None
    made.summary[:] = [
        row for row in made.summary if row["measure"] not in ("accuracy", "execution_ratio")
    ]
    charts = charts_of(shown(made))

    assert "figure-1c" not in charts
    assert "figure-1a" in charts


def test_runs_that_were_not_verified_are_called_so() -> None:
    told = words_of(shown(tables(few(), verified=False)))

    assert "These runs have not been verified" in told


def test_an_illegal_verdict_is_told_at_the_top_and_with_its_command() -> None:
    made = tables(few(), illegal=["creek-0003:real_time"])
    told = words_of(shown(made))

    assert "Checkers found something illegal in 1 of the runs" in told
    assert "w 1:4 came before w 1:3" in told
    assert "1 is illegal" in told


def test_what_is_the_same_of_many_runs_is_told_once() -> None:
    made = tables(few())
    for row in made.verdicts:
        if row["checker"] == "replay":
            row.update(verdict="unknown", detail="what replicas did was not recorded")
    told = words_of(shown(made))

    assert told.count("what replicas did was not recorded") == 1
    assert "creek-0000 and 7 more" in told


def test_a_page_lists_no_more_than_somebody_reads() -> None:
    made = tables(few())
    for place, row in enumerate(made.verdicts):
        row.update(verdict="illegal", detail=f"counterexample {place}")
    made.verdicts.extend(
        row | {"detail": f"another {place}"} for place, row in enumerate(list(made.verdicts))
    )
    told = words_of(shown(made))

    assert "Illegal: 96" in told
    assert "… and 46 more" in told


def test_a_violated_condition_and_a_run_that_did_not_rest_are_told() -> None:
    made = tables(few())
    made.runs[0]["violated"] = "replica 0: condition 3 does not hold"
    made.runs[1]["unsettled"] = "replica 2 lags behind"
    told = words_of(shown(made))

    assert "condition 3 does not hold" in told
    assert "replica 2 lags behind" in told
    assert "1 of the runs did not come to rest" in told


def test_hostile_text_stays_text() -> None:
    made = tables(few(faults=tuple(SPLIT.split("; ")), duration_us=5_000_000) + few())
    for row in made.verdicts:
        row.update(verdict="illegal", detail=HOSTILE, checker=HOSTILE, command=HOSTILE)
    for row in made.runs:
        row.update(violated=HOSTILE, unsettled=HOSTILE, command=HOSTILE)
    for table in (made.measures, made.summary, made.peaks, made.runs):
        for row in table:
            row["scheme"] = HOSTILE if row["scheme"] == "creek" else row["scheme"]
            row["layout"] = row["layout"]
    for table in (made.measures, made.latencies, made.verdicts, made.runs, made.samples):
        for row in table:
            row["run"] = HOSTILE + row["run"]
    text = shown(made)

    told = words_of(text)  # which asserts that no element came of it
    assert HOSTILE in told
    assert "49" not in re.findall(r"<!--(.*?)[\"']", told)
    assert len(re.findall(r"</script", text)) == text.count("<script")
    assert any(HOSTILE in key for key in charts_of(text))


def test_a_page_allows_its_own_scripts_and_nothing_else() -> None:
    text = shown(tables(few()))

    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none'")
    assert "unsafe-eval" not in policy
    assert re.search(r"script-src ('sha256-[^']+' ?){2}$", policy)


def test_a_cell_that_failed_is_told(tmp_path: Path) -> None:
    write(tables(few()), tmp_path)
    (tmp_path / "failed").mkdir()
    (tmp_path / "failed" / "creek-w5.txt").write_text("it ran out of <memory>")
    told = words_of(write_report(tmp_path).page.read_text())

    assert "1 of the experiments failed" in told
    assert "it ran out of <memory>" in told


def test_a_partition_is_drawn_over_time() -> None:
    faults = tuple(SPLIT.split("; "))
    text = shown(tables([Experiment(load_tps=1e4, faults=faults, duration_us=5_000_000)]))

    keys = [key for key in charts_of(text) if key.startswith("timeline-")]
    assert len(keys) == 2
    assert "partition 0,1|2,3,4" in words_of(text)
    assert "No figures" in words_of(text)


def test_layouts_are_compared_by_warehouses() -> None:
    varied = [
        experiment
        for layout in ("rows", "fine")
        for warehouses in (1, 5)
        for experiment in few(layout=layout, warehouses=warehouses)
    ]
    spec = charts_of(shown(tables(varied)))["layout-peak"]["spec"]

    lines = {row["line"] for row in spec["datasets"]["rows"]}  # type: ignore[index]
    assert lines == {"Creek, rows", "Creek, fine"}


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere is no folder"):
        write_report(tmp_path / "nowhere")


def test_a_folder_without_measures_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="creek pipeline measure"):
        write_report(tmp_path)


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    write(tables(few()), tmp_path)
    damaged = tmp_path / "peaks" / "part-00000.parquet"
    damaged.write_bytes(damaged.read_bytes()[:100])

    with pytest.raises(StorageFault, match=r"part-00000\.parquet cannot be read as Parquet"):
        write_report(tmp_path)


def test_a_table_of_another_version_is_named(tmp_path: Path) -> None:
    write(tables(few()), tmp_path)
    other = tmp_path / "verdicts" / "part-00000.parquet"
    pq.write_table(pa.table({"run": ["a"], "checker": [1]}), other)

    with pytest.raises(StorageFault, match="'checker' should be string and is int64"):
        write_report(tmp_path)


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, two: str) -> float:
    dark, light = sorted((luminance(one), luminance(two)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("behind", ["background", "wash"])
def test_every_colour_of_text_or_line_can_be_told_from_what_is_behind_it(
    dark: bool, behind: str
) -> None:
    texts = [INK_COLOURS[name] for name in ("ink", "soft", "good", "bad", "unsure")]
    for pair in (*texts, *SCHEME_COLOURS.values(), *OTHER_COLOURS):
        assert contrast(pair[dark], INK_COLOURS[behind][dark]) >= 4.5, pair


def test_what_is_no_number_is_no_point(tmp_path: Path) -> None:
    made = tables(few())
    for row in made.summary:
        row["mean"] = float("nan") if row["measure"] == "accuracy" else row["mean"]
        row["low"] = float("-inf")
    text = write_report(write(made, tmp_path)).page.read_text()

    assert "figure-1b" in charts_of(text)  # to the letter
    assert "NaN" not in json.dumps(charts_of(text))
    assert "Infinity" not in json.dumps(charts_of(text))


def test_of_every_checker_it_says_what_it_asks() -> None:
    names = {each.name for each in CHECKERS} | {
        *relational_checks.RELATIONAL_CHECKERS,
        TPCC_CONDITIONS,
        MISSING_EVENTS_CHECK,
    }
    assert names == CHECKER_DESCRIPTIONS.keys()
    assert CHECKER_DESCRIPTIONS["real_time"] in words_of(shown(tables(few())))


@pytest.mark.parametrize("spread", [9.0, 60.0, 499.0, 3_000.0, 90_000.0])
def test_an_axis_on_which_a_multiple_counts_loses_no_round_number(spread: float) -> None:
    """Of more marks than were asked for every second one would be left out."""
    axis = Axis("latency, ms", PLAIN_LABEL, [], logarithmic=True, low=0.09, high=0.09 * spread)
    _, tens, rest = re.split(r" \? | : ", axis.ticks("y"), maxsplit=2)
    chosen = tens if spread > DECADE_STEPS_FROM else re.split(r" \? | : ", rest)[1]
    marked = [each for each in json.loads(chosen) if axis.low <= each <= axis.high]
    assert 2 <= len(marked) <= axis.vega_axis("y", 4).to_dict()["tickCount"]


@pytest.mark.parametrize(("share", "told"), [(1.0, "all of these"), (0.9999, "at least 99.99")])
def test_who_was_always_right_is_said_to_be(share: float, told: str) -> None:
    one = QueryResult(1.0, 1.0, 1)
    (lead,) = _latency_sentences(one, one, QueryResult(share, 1.0, 1))
    assert told in lead
