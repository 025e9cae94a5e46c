"""The report page and its pictures, from tables in a directory."""

import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from creekdb.checkers.registry import CHECKERS
from creekdb.errors import StorageFault, UsageError
from creekdb.evaluation import Experiment
from creekdb.pipeline.checks import verdict_names
from creekdb.pipeline.checks.verdict_names import MISSING_EVENTS_CHECK, TPCC_CONDITIONS
from creekdb.pipeline.report import write_report
from creekdb.pipeline.report.charts.layers import DECADE_STEPS_FROM, PLAIN_LABEL, Axis
from creekdb.pipeline.report.charts.theme import (
    INK_COLOURS,
    OTHER_COLOURS,
    css_name,
)
from creekdb.pipeline.report.checks import CHECKER_DESCRIPTIONS
from creekdb.pipeline.report.claims import ClaimStatus, evaluate_claims
from creekdb.pipeline.report.evidence import Evidence, ReportTables
from creekdb.pipeline.report.formatting import NO_BREAK_SPACE
from creekdb.pipeline.report.page import render_page
from creekdb.pipeline.storage import Location
from creekdb.schemes.registry import SCHEMES
from tests.pipeline.synthetic_tables import (
    PARTITION_FAULTS,
    add_live_run,
    report_tables,
    write_tables,
)

HOSTILE = "</script><img src=x onerror=alert(1)><!--{{ 7 * 7 }}\"'&"


def few_experiments(scheme: str = "creek", seeds: int = 2, **fields: object) -> list[Experiment]:
    return [
        Experiment(scheme=scheme, seed=seed, load_tps=load, **fields)  # type: ignore[arg-type]
        for load in (1_000.0, 2_500.0, 20_000.0, 40_000.0)
        for seed in range(seeds)
    ]


def rendered(tables: ReportTables) -> str:
    evidence = Evidence(tables)
    return render_page(evidence, evaluate_claims(evidence))


def charts_of(page: str) -> dict[str, dict[str, object]]:
    match = re.search(r'<script type="application/json" id="charts">(.*?)</script>', page, re.S)
    assert match is not None
    charts: dict[str, dict[str, object]] = json.loads(match[1])
    return charts


def text_of(page: str) -> str:
    """Return the visible text of a page, and check that it loads nothing from elsewhere."""

    class Reader(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.texts: list[str] = []
            self.is_hidden = False
            self.tags: list[tuple[str, dict[str, str | None]]] = []

        def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
            self.is_hidden = tag in ("script", "style")
            self.tags.append((tag, dict(attrs)))

        def handle_endtag(self, tag: str) -> None:
            self.is_hidden = False

        def handle_data(self, data: str) -> None:
            if not self.is_hidden:
                self.texts.append(data)

    reader = Reader()
    reader.feed(page)
    assert not [tag for tag, _ in reader.tags if tag in ("img", "iframe", "object", "embed")]
    for tag, attributes in reader.tags:
        for name in ("src", "href"):
            address = attributes.get(name) or "#"
            assert address.startswith(("#", "data:")), (tag, address)
    return " ".join(" ".join(reader.texts).split())


def test_a_report_consists_of_a_page_and_pictures(tmp_path: Path) -> None:
    tables = report_tables(few_experiments() + few_experiments("smr"))
    report = write_report(Location.parse(write_tables(tables, tmp_path)))

    assert report.page == Location.parse(tmp_path / "report.html")
    assert "not measured" in report.summary[0]
    pictures = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert pictures == [f"figure-1{letter}.{kind}" for letter in "abc" for kind in ("png", "svg")]
    for path in (tmp_path / "figures").glob("*.svg"):
        svg = path.read_text()
        assert "Creek" in svg
        assert "simulated" in svg
        assert "var(--" not in svg
    assert (tmp_path / "figures" / "figure-1a.png").read_bytes().startswith(b"\x89PNG")


def test_equal_tables_yield_equal_pages() -> None:
    tables = report_tables(few_experiments())

    assert rendered(tables) == rendered(tables)


def test_a_page_contains_the_numbers_of_the_tables() -> None:
    tables = report_tables(few_experiments())
    for row in tables.summary:
        if row["measure"] == "weak_tentative_mean_us":
            row["mean"] = 543.2
    text = text_of(rendered(tables))

    assert "0.54 ms" in text
    assert "creek simulate --workload tpcc --scheme creek --load 20000" in text
    assert "not measured" in text


def test_a_missing_scheme_has_no_lines() -> None:
    charts = charts_of(rendered(report_tables(few_experiments("smr"))))

    rows = charts["figure-1a"]["spec"]["datasets"]["rows"]  # type: ignore[index]
    assert {row["line"] for row in rows} == {"SMR"}
    assert "figure-1b" not in charts


def test_an_added_scheme_has_a_curve_and_a_colour() -> None:
    tables = report_tables(few_experiments() + few_experiments("archie"))
    for table in (tables.measures, tables.summary, tables.peaks, tables.runs):
        for row in table:
            row["scheme"] = row["scheme"].replace("archie", "my own")
    page = rendered(tables)

    rows = charts_of(page)["figure-1a"]["spec"]["datasets"]["rows"]  # type: ignore[index]
    assert "my own, weak first response" in {row["line"] for row in rows}
    assert f"--{css_name('scheme-my own')}:{OTHER_COLOURS[0][0]};" in page


def test_a_single_seed_has_no_interval() -> None:
    text = text_of(rendered(report_tables(few_experiments(seeds=1))))

    assert "single seed" in text
    assert "NaN" not in text


def test_the_tally_of_a_partial_grid_names_the_complete_one() -> None:
    evidence = Evidence(report_tables(few_experiments()))
    results = evaluate_claims(evidence)
    all_measured = [each._replace(status=ClaimStatus.HOLDS) for each in results]

    assert "“make reproduce” runs all of them. Statement" in text_of(render_page(evidence, results))
    assert "make reproduce" not in text_of(render_page(evidence, all_measured))


def test_null_measures_yield_no_points() -> None:
    tables = report_tables(few_experiments())
    for row in tables.measures:
        row["accuracy"] = row["execution_ratio"] = row["saturated"] = None
    tables.summary[:] = [
        row for row in tables.summary if row["measure"] not in ("accuracy", "execution_ratio")
    ]
    charts = charts_of(rendered(tables))

    assert "figure-1c" not in charts
    assert "figure-1a" in charts


def test_unverified_runs_are_marked() -> None:
    text = text_of(rendered(report_tables(few_experiments(), verified=False)))

    assert "These runs have not been verified" in text


def test_an_illegal_verdict_is_shown_at_the_top_and_with_its_detail() -> None:
    tables = report_tables(few_experiments(), illegal=["creek-0003:real_time"])
    text = text_of(rendered(tables))

    assert "Checkers found violations in 1 of the runs" in text
    assert "w 1:4 came before w 1:3" in text
    assert "1 is illegal" in text


def test_equal_details_of_several_runs_are_shown_once() -> None:
    tables = report_tables(few_experiments())
    for row in tables.verdicts:
        if row["checker"] == "replay":
            row.update(verdict="unknown", detail="no replica events were recorded")
    text = text_of(rendered(tables))

    assert text.count("no replica events were recorded") == 1
    assert "creek-0000 and 7 more" in text


def test_the_number_of_listed_failures_is_limited() -> None:
    tables = report_tables(few_experiments())
    for number, row in enumerate(tables.verdicts):
        row.update(verdict="illegal", detail=f"counterexample {number}")
    tables.verdicts.extend(
        row | {"detail": f"another {number}"} for number, row in enumerate(list(tables.verdicts))
    )
    text = text_of(rendered(tables))

    assert "Illegal: 96" in text
    assert "… and 46 more" in text


def test_violated_conditions_and_missing_convergence_are_shown() -> None:
    tables = report_tables(few_experiments())
    tables.runs[0]["violated"] = "replica 0: condition 3 does not hold"
    tables.runs[1]["unsettled"] = "replica 2 lags behind"
    text = text_of(rendered(tables))

    assert "condition 3 does not hold" in text
    assert "replica 2 lags behind" in text
    assert "1 of the runs did not converge" in text


def test_hostile_text_is_escaped() -> None:
    faults = tuple(PARTITION_FAULTS.split("; "))
    partitioned = few_experiments(faults=faults, duration_us=5_000_000)
    tables = report_tables(partitioned + few_experiments())
    for row in tables.verdicts:
        row.update(verdict="illegal", detail=HOSTILE, checker=HOSTILE, command=HOSTILE)
    for row in tables.runs:
        row.update(violated=HOSTILE, unsettled=HOSTILE, command=HOSTILE)
    for table in (tables.measures, tables.summary, tables.peaks, tables.runs):
        for row in table:
            row["scheme"] = HOSTILE if row["scheme"] == "creek" else row["scheme"]
    for table in (
        tables.measures,
        tables.latencies,
        tables.verdicts,
        tables.runs,
        tables.samples,
    ):
        for row in table:
            row["run"] = HOSTILE + row["run"]
    page = rendered(tables)

    text = text_of(page)  # It asserts that the text created no element.
    assert HOSTILE in text
    assert "49" not in re.findall(r"<!--(.*?)[\"']", text)
    assert len(re.findall(r"</script", page)) == page.count("<script")
    assert any(HOSTILE in key for key in charts_of(page))


def test_the_policy_of_a_page_admits_only_its_own_scripts() -> None:
    page = rendered(report_tables(few_experiments()))

    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src 'none'")
    assert "unsafe-eval" not in policy
    assert re.search(r"script-src ('sha256-[^']+' ?){2}$", policy)


def test_a_failed_cell_is_shown(tmp_path: Path) -> None:
    write_tables(report_tables(few_experiments()), tmp_path)
    (tmp_path / "failed").mkdir()
    (tmp_path / "failed" / "creek-w5.txt").write_text("it ran out of <memory>")
    text = text_of(write_report(Location.parse(tmp_path)).page.read_bytes().decode())

    assert "Failed experiments, absent from this page: 1." in text
    assert "it ran out of <memory>" in text


def test_a_partition_is_drawn_over_time() -> None:
    faults = tuple(PARTITION_FAULTS.split("; "))
    experiment = Experiment(load_tps=1e4, faults=faults, duration_us=5_000_000)
    page = rendered(report_tables([experiment]))

    keys = [key for key in charts_of(page) if key.startswith("timeline-")]
    assert len(keys) == 2
    assert "partition 0,1|2,3,4" in text_of(page)
    assert "Creek at 10.0k tx/s, simulated" in text_of(page)
    assert "No figures" in text_of(page)


def test_layouts_are_compared_by_warehouses() -> None:
    chosen = [
        experiment
        for layout in ("rows", "fine")
        for warehouses in (1, 5)
        for experiment in few_experiments(layout=layout, warehouses=warehouses)
    ]
    spec = charts_of(rendered(report_tables(chosen)))["layout-peak"]["spec"]

    lines = {row["line"] for row in spec["datasets"]["rows"]}  # type: ignore[index]
    assert lines == {"Creek, rows", "Creek, fine"}


def test_a_missing_directory_is_reported_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere: not a directory"):
        write_report(Location.parse(tmp_path / "nowhere"))


def test_a_directory_without_measures_is_reported_with_the_required_stage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="creek pipeline measure"):
        write_report(Location.parse(tmp_path))


def test_a_damaged_table_is_reported_by_name(tmp_path: Path) -> None:
    write_tables(report_tables(few_experiments()), tmp_path)
    damaged = tmp_path / "peaks" / "part-00000.parquet"
    damaged.write_bytes(damaged.read_bytes()[:100])

    with pytest.raises(StorageFault, match=r"part-00000\.parquet is damaged: "):
        write_report(Location.parse(tmp_path))


def test_a_table_of_another_version_is_reported_by_name(tmp_path: Path) -> None:
    write_tables(report_tables(few_experiments()), tmp_path)
    other = tmp_path / "verdicts" / "part-00000.parquet"
    pq.write_table(pa.table({"run": ["a"], "checker": [1]}), other)

    with pytest.raises(StorageFault, match="'checker' must be string and is int64"):
        write_report(Location.parse(tmp_path))


def luminance(colour: str) -> float:
    parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(colour: str, background: str) -> float:
    dark, light = sorted((luminance(colour), luminance(background)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("background", ["background", "wash"])
def test_texts_and_lines_contrast_with_their_background(dark: bool, background: str) -> None:
    texts = [INK_COLOURS[name] for name in ("ink", "soft", "good", "bad", "warning")]
    own = [spec.chart.colours for spec in SCHEMES.values() if spec.chart.colours is not None]
    assert len(own) == len(SCHEMES) - 1, "`differential` is for the fuzzer"
    for pair in (*texts, *own, *OTHER_COLOURS):
        assert contrast(pair[dark], INK_COLOURS[background][dark]) >= 4.5, pair


def test_non_finite_values_yield_no_points(tmp_path: Path) -> None:
    tables = report_tables(few_experiments())
    for row in tables.summary:
        row["mean"] = float("nan") if row["measure"] == "accuracy" else row["mean"]
        row["low"] = float("-inf")
    page = write_report(Location.parse(write_tables(tables, tmp_path))).page.read_bytes().decode()

    assert "figure-1b" in charts_of(page)  # with the exact accuracy
    assert "NaN" not in json.dumps(charts_of(page))
    assert "Infinity" not in json.dumps(charts_of(page))


def test_every_checker_has_a_description() -> None:
    names = {each.name for each in CHECKERS} | {
        *verdict_names.RELATIONAL_CHECKERS,
        TPCC_CONDITIONS,
        MISSING_EVENTS_CHECK,
    }
    assert names == CHECKER_DESCRIPTIONS.keys()
    assert CHECKER_DESCRIPTIONS["real_time"] in text_of(rendered(report_tables(few_experiments())))


@pytest.mark.parametrize("spread", [9.0, 60.0, 499.0, 3_000.0, 90_000.0])
def test_a_logarithmic_axis_labels_all_round_numbers(spread: float) -> None:
    """Vega drops every second label if there are more ticks than its tick count."""
    axis = Axis("latency, ms", PLAIN_LABEL, [], logarithmic=True, low=0.09, high=0.09 * spread)
    _, decades, rest = re.split(r" \? | : ", axis.ticks("y"), maxsplit=2)
    chosen = decades if spread > DECADE_STEPS_FROM else re.split(r" \? | : ", rest)[1]
    ticks = [each for each in json.loads(chosen) if axis.low <= each <= axis.high]
    assert 2 <= len(ticks) <= axis.vega_axis("y", 4).to_dict()["tickCount"]


@pytest.mark.parametrize(("share", "words"), [(1.0, "all of these"), (0.9999, "at least 99.99")])
def test_only_an_accuracy_of_1_is_stated_as_all(share: float, words: str) -> None:
    assert words in headline(report_tables(few_experiments()), accuracy=share).sentences[0]


# --- simulated and live figures in the headline --------------------------------------------------


class Headline(NamedTuple):
    """Texts at the top of a page."""

    sentences: list[str]
    notes: dict[str, str]
    """Notes of the key numbers, by label."""


def headline(tables: ReportTables, accuracy: float = 0.99) -> Headline:
    """Return the headline of tables in which Creek has fixed simulated results."""
    fixed = {
        "weak_tentative_mean_us": 760.0,
        "strong_stable_mean_us": 1_480.0,
        "accuracy": accuracy,
    }
    for row in tables.summary:
        row["mean"] = fixed.get(row["measure"], row["mean"])
    page = rendered(tables).replace(NO_BREAK_SPACE, " ")
    notes = re.findall(r'<dt>([^<]*)</dt>.*?<dd class="note">([^<]*)</dd>', page, re.S)
    assert notes
    return Headline(re.findall(r'<p class="lead">([^<]*)</p>', page), dict(notes))


def test_the_headline_labels_simulated_figures_as_simulated_without_a_live_run() -> None:
    summary = headline(report_tables(few_experiments()))

    assert summary.sentences[0] == (
        "In simulation, a weak transaction gets its first response after 0.76 ms (mean). "
        "The replica responds without contacting others. "
        "In simulation, at least 99.0 % of these responses equal the final response. "
        "In simulation, a strong transaction gets its stable response after 1.48 ms (mean)."
    )
    assert summary.sentences[1].startswith("Source: 8 simulated runs of TPC-C with 2 seeds")
    assert "live" not in " ".join(summary.sentences)
    assert all(label.startswith("simulated ") for label in summary.notes)
    assert not any("live" in note for note in summary.notes.values())


def test_the_headline_states_figures_of_a_live_run_beside_simulated_ones() -> None:
    tables = report_tables(few_experiments())
    add_live_run(tables, weak_us=2_800, strong_us=9_100, accuracy=0.97)
    summary = headline(tables)

    assert summary.sentences[0] == (
        "In simulation, a weak transaction gets its first response after 0.76 ms (mean); "
        "on the live cluster of this machine it took 2.80 ms (median). "
        "The replica responds without contacting others. "
        "In simulation, at least 99.0 % of these responses equal the final response; "
        "on the live cluster, 97.0 % did. "
        "In simulation, a strong transaction gets its stable response after 1.48 ms (mean); "
        "on the live cluster it took 9.10 ms (median)."
    )
    assert summary.sentences[1].startswith("Source: 8 simulated and 1 live runs of TPC-C")
    assert summary.sentences[2] == (
        "The live cluster ran 3 replicas as processes on one machine, through a crash and a "
        "restart: all 6 checkers report ok."
    )
    weak, strong = (summary.notes[f"simulated latency of the {each}"] for each in LATENCY_LABELS)
    assert weak.endswith("; live: 2.80 ms (median)")
    assert strong.endswith("; live: 9.10 ms (median)")


LATENCY_LABELS = ("first response, weak", "stable response, strong")


def test_live_figures_of_another_scheme_are_not_stated_beside_those_of_creek() -> None:
    tables = report_tables(few_experiments())
    add_live_run(tables, weak_us=2_800, strong_us=9_100, accuracy=0.97)
    for table in (tables.runs, tables.measures):
        table[-1]["scheme"] = "smr"

    assert "live" not in headline(tables).sentences[0]


def test_figures_of_live_runs_alone_are_labelled_as_live() -> None:
    tables = report_tables(few_experiments())
    for table in (tables.measures, tables.summary, tables.peaks, tables.runs):
        for row in table:
            row["source"] = "live"
    summary = headline(tables)

    assert summary.sentences[0].startswith("On the live cluster, a weak transaction")
    assert "simulat" not in " ".join(summary.sentences)
    assert all(label.startswith("live ") for label in summary.notes)


def test_every_section_with_simulated_numbers_states_their_source() -> None:
    warehouses = few_experiments(warehouses=1) + few_experiments(warehouses=20)
    text = text_of(rendered(report_tables(few_experiments() + warehouses)))

    for heading in ("Figure 1a, simulated", "Figure 1b, simulated", "Figure 1c, simulated"):
        assert heading in text
    assert "Section 6.3, simulated" in text
    assert "Section 6, simulated" in text
    assert "hold in the simulated runs" in text
