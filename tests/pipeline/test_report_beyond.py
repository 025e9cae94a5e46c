"""The section of the report on Creek's extensions beyond the paper."""

import re
from pathlib import Path
from typing import Any

import pytest

from creekdb.evaluation import EXTENSIONS, Experiment
from creekdb.pipeline.report import write_report
from creekdb.pipeline.report.beyond import (
    EXTENDED_LABEL,
    PAPER_LABEL,
    BeyondSection,
    beyond_section,
    section_markdown,
)
from creekdb.pipeline.report.charts import theme
from creekdb.pipeline.report.claims import evaluate_claims
from creekdb.pipeline.report.evidence import Evidence
from creekdb.pipeline.report.page import render_page
from creekdb.pipeline.storage import Location
from creekdb.protocol.extensions import join_extensions
from tests.pipeline.synthetic_tables import report_tables, write_tables

ALL = dict.fromkeys(EXTENSIONS, True)
LOADS = (1_000.0, 10_000.0, 20_000.0, 40_000.0)


def runs(loads: tuple[float, ...] = LOADS, **fields: Any) -> list[Experiment]:
    return [Experiment(load_tps=load, seed=seed, **fields) for load in loads for seed in range(2)]


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


def test_the_report_includes_section_tables_and_pictures(tmp_path: Path) -> None:
    tables = report_tables(compared() + compared((10_000.0,), clock_skew_us=1_000))
    report = write_report(Location.parse(write_tables(tables, tmp_path)))
    page = report.page.read_bytes().decode()
    markdown = (tmp_path / "beyond.md").read_text()

    assert 'id="beyond"' in page
    assert page.count('data-group="beyond"') == 4
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
