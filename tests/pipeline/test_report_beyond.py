"""The section of the report on Creek's extensions beyond the paper."""

import re
from pathlib import Path
from typing import Any

import pytest

from creekdb.evaluation import EXTENSIONS, Experiment
from creekdb.pipeline.report import write_report
from creekdb.pipeline.report.bars import judge_bars
from creekdb.pipeline.report.beyond import (
    EXTENDED_LABEL,
    PAPER_LABEL,
    BeyondSection,
    beyond_section,
    section_markdown,
)
from creekdb.pipeline.report.charts import theme
from creekdb.pipeline.report.claims import evaluate_claims
from creekdb.pipeline.report.evidence import Evidence, ReportTables
from creekdb.pipeline.report.page import render_page
from creekdb.pipeline.storage import Location
from creekdb.protocol.extensions import join_extensions
from tests.pipeline.synthetic_tables import report_tables, write_tables

ALL = dict.fromkeys(EXTENSIONS, True)
LOADS = (1_000.0, 10_000.0, 20_000.0, 40_000.0)


def runs(loads: tuple[float, ...] = LOADS, seeds: int = 2, **fields: Any) -> list[Experiment]:
    return [
        Experiment(load_tps=load, seed=seed, **fields) for load in loads for seed in range(seeds)
    ]


def compared(loads: tuple[float, ...] = LOADS, **fields: Any) -> list[Experiment]:
    return runs(loads, **fields) + runs(loads, **fields, **ALL)


def section_of(experiments: list[Experiment]) -> BeyondSection:
    evidence = Evidence(report_tables(experiments))
    section = beyond_section(evidence, theme.picture_palette(evidence.schemes))
    assert section is not None
    return section


def test_runs_without_extensions_have_no_section() -> None:
    evidence = Evidence(report_tables(runs()))

    assert beyond_section(evidence, theme.picture_palette(evidence.schemes)) is None
    assert 'id="beyond"' not in render_page(evidence, [])


def test_the_paper_and_its_figures_exclude_extended_runs() -> None:
    paper, both = Evidence(report_tables(runs())), Evidence(report_tables(compared()))

    assert both.curve("creek", "accuracy") == paper.curve("creek", "accuracy")
    assert len(both.curve("creek", "accuracy", extensions=join_extensions(EXTENSIONS))) == 4
    assert [each.result for each in evaluate_claims(both)] == [
        each.result for each in evaluate_claims(paper)
    ]


def test_figures_have_a_further_line() -> None:
    section = section_of(compared() + runs(scheme="archie"))
    ratio = section.figures[-1].chart

    assert [figure.key for figure in section.figures] == ["beyond-1a", "beyond-1b", "beyond-1c"]
    assert [line.label for line in ratio.lines] == [EXTENDED_LABEL, PAPER_LABEL, "Archie"]
    assert len({line.colour for line in ratio.lines}) == 3
    values = {
        line.label: [row["value"] for row in ratio.rows if row["line"] == line.label]
        for line in ratio.lines
    }
    assert all(values.values())
    assert values[EXTENDED_LABEL] != values[PAPER_LABEL]


def test_contributions_are_compared_at_common_loads_below_saturation() -> None:
    section = section_of(compared() + runs((10_000.0,), scheme="archie") + runs((5_000.0,), **ALL))
    titles = [table.title.replace("\u00a0", " ") for table in section.contributions]
    at_10k = section.contributions[1]

    assert titles == [
        "5 warehouses, 1.00k tx/s",
        "5 warehouses, 10.0k tx/s",
        "5 warehouses, 20.0k tx/s",
        "Peak throughput",
    ]
    assert [row[0] for row in at_10k.rows] == [
        PAPER_LABEL,
        " + ".join(EXTENSIONS).replace("_", " "),
        "Archie",
    ]
    assert all(len(row) == len(at_10k.header) for row in at_10k.rows)
    assert at_10k.rows[0][-1] == "2"


def test_a_set_that_did_not_run_with_all_warehouses_has_no_contribution() -> None:
    section = section_of(compared() + runs(warehouses=1))

    assert not any("1 warehouse," in table.title for table in section.contributions)
    assert section.contributions[-1].header == ["system", "1 warehouse", "5 warehouses"]


@pytest.mark.parametrize(
    ("key", "experiments", "values"),
    [
        (
            "regions-3",
            [
                each
                for warehouses in (1, 5)
                for each in compared((1_000.0,), regions=3, replicas=3, warehouses=warehouses)
            ],
            ["1", "5"],
        ),
        ("skew", compared((10_000.0,), clock_skew_us=1_000), ["0\u00a0ms", "1\u00a0ms"]),
    ],
)
def test_systems_are_compared_by_a_parameter(
    key: str, experiments: list[Experiment], values: list[str]
) -> None:
    (comparison,) = section_of(compared() + experiments).comparisons
    rows = comparison.panels[0].spec["datasets"]["rows"]

    assert comparison.key == key
    assert len(comparison.panels) == 4
    assert [row["parameter"] for row in rows if row["line"] == PAPER_LABEL] == values
    assert [row[:2] for row in comparison.table.rows] == [
        [label, value] for label in (EXTENDED_LABEL, PAPER_LABEL) for value in values
    ]


def test_apologies_are_responses_that_were_not_exact() -> None:
    tables = report_tables(
        compared()
        + compared((1_000.0,), regions=5)
        + compared((1_000.0,), regions=5, warehouses=20)
    )
    for row in tables.summary:
        if row["measure"] == "exact_accuracy":
            row["mean"] = 0.75
    evidence = Evidence(tables)
    section = beyond_section(evidence, theme.picture_palette(evidence.schemes))
    assert section is not None
    (comparison,) = section.comparisons
    column = comparison.table.header.index("apologies per 1000 weak")

    assert {row[column] for row in comparison.table.rows} == {"250.00"}


def test_a_scheme_that_withholds_responses_has_no_apologies() -> None:
    tables = report_tables(
        compared()
        + compared((1_000.0,), regions=5)
        + compared((1_000.0,), regions=5, warehouses=20)
        + runs((1_000.0,), scheme="archie", regions=5)
        + runs((1_000.0,), scheme="archie", regions=5, warehouses=20)
    )
    for row in tables.summary:
        if row["measure"] in ("accuracy", "exact_accuracy"):
            row["mean"] = 0.75
    evidence = Evidence(tables)
    section = beyond_section(evidence, theme.picture_palette(evidence.schemes))
    assert section is not None
    (comparison,) = section.comparisons
    header, rows = comparison.table.header, comparison.table.rows
    apologies = {(row[0], row[header.index("apologies per 1000 weak")]) for row in rows}
    accuracies = {row[header.index("accuracy")] for row in rows}
    drawn = comparison.panels[-1].spec["datasets"]["rows"]

    assert apologies == {(EXTENDED_LABEL, "250.00"), (PAPER_LABEL, "250.00"), ("Archie", "0.00")}
    assert accuracies == {"75.0\u00a0%"}
    assert {row["value"] for row in drawn if row["line"] == "Archie"} == {0.0}


# --- bars and frontier ----------------------------------------------------------------------------


def bar_cells(tables: ReportTables) -> dict[str, list[str]]:
    return {each.subject: each.cells[2:] for each in judge_bars(Evidence(tables))}


def test_bars_are_judged_by_the_runs_with_all_extensions() -> None:
    experiments = runs((10_000.0, 20_000.0, 30_000.0, 44_000.0), seeds=3, **ALL)
    experiments += runs((9_000.0,), seeds=3, warehouses=1, **ALL)
    tables = report_tables(experiments + runs((10_000.0,), warehouses=20))
    measured = {
        (5, 10_000.0, "strong_stable_mean_us"): 804.0,
        (5, 20_000.0, "strong_stable_mean_us"): 1_206.0,
        (5, 20_000.0, "execution_ratio"): 1.10,
        (1, 9_000.0, "execution_ratio"): 1.11,
        (1, 9_000.0, "exact_accuracy"): 0.95,
    }
    for row in tables.summary:
        key = row["warehouses"], row["load_tps"], row["measure"]
        row["mean"] = measured.get(key, row["mean"])
    cells = bar_cells(tables)

    assert cells["stable Payment, mean, 5 warehouses, 10k tx/s"] == ["0.80\u00a0ms", "3", "met"]
    assert cells["stable Payment, mean, 5 warehouses, 20k tx/s"] == ["1.21\u00a0ms", "3", "missed"]
    assert cells["execution ratio, 5 warehouses, 20k tx/s"] == ["1.10", "3", "met"]
    assert cells["execution ratio, 1 warehouse, 9k tx/s"] == ["1.11", "3", "missed"]
    assert cells["exact accuracy, 1 warehouse, 9k tx/s"] == ["95.0\u00a0%", "3", "met"]
    assert cells["peak throughput, 5 warehouses"][-1] == "missed"
    assert cells["peak throughput, 20 warehouses"] == ["–", "–", "not measured"]


def test_a_bar_over_fewer_than_three_seeds_is_not_measured() -> None:
    cells = bar_cells(report_tables(runs((10_000.0,), **ALL)))

    assert cells["stable Payment, mean, 5 warehouses, 10k tx/s"][1:] == ["2", "not measured"]


def test_sets_with_estimates_are_points_of_the_frontier() -> None:
    chosen = [{}, {"footprints": True}, {"estimates": True}, ALL]
    section = section_of([each for fields in chosen for each in runs((10_000.0,), **fields)])
    (panel,) = section.frontier
    points = panel.spec["datasets"]["rows"]

    assert panel.title == "5 warehouses, 10.0k\u00a0tx/s"
    names = ["none", "estimates", " + ".join(EXTENSIONS).replace("_", " ")]
    assert [(each["label"], each["name"]) for each in points] == list(
        zip("123", names, strict=True)
    )
    assert [row[:4] for row in section.frontier_table.rows] == [
        [each["label"], each["name"], each["stable"], each["ratio"]] for each in points
    ]
    at_10k = section.contributions[0]
    stable = at_10k.header.index("stable response, strong")
    assert {row[stable] for row in at_10k.rows} >= {each["stable"] for each in points}


def test_the_report_includes_section_tables_and_pictures(tmp_path: Path) -> None:
    tables = report_tables(compared() + compared((10_000.0,), clock_skew_us=1_000))
    report = write_report(Location.parse(write_tables(tables, tmp_path)))
    page = report.page.read_bytes().decode()
    markdown = (tmp_path / "beyond.md").read_text()

    assert 'id="beyond"' in page
    assert page.count('data-group="beyond"') == 4
    assert page.count('data-chart="beyond-frontier-') == 3
    assert "**Bars**" in markdown
    assert "**Frontier**" in markdown
    assert EXTENDED_LABEL in (tmp_path / "figures" / "beyond-1a.svg").read_text()
    assert "**5 warehouses, 10.0k" in markdown
    assert "**Skewed clocks, 10.0k" in markdown
    assert all(f"*{name.replace('_', ' ')}*" in markdown for name in EXTENSIONS)


def test_markdown_tables_are_rectangular() -> None:
    text = section_markdown(section_of(compared() + compared((10_000.0,), clock_skew_us=1_000)))
    widths = [
        {line.count("|") for line in block.splitlines()}
        for block in re.split(r"\n\n", text)
        if block.startswith("|")
    ]

    assert len(widths) >= 3
    assert all(len(each) == 1 for each in widths)
