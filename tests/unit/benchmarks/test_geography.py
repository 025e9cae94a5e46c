"""Table and picture of latencies between distant sites."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from benchmarks.geography import main, markdown, read
from benchmarks.geography_figures import Figures, Medians, SiteLatencies, summarise

FIGURES = Figures(
    how_it_ran="compiled",
    cores=2,
    latency_ms=40.0,
    load_per_site=30,
    value_bytes=256,
    rounds=3,
    round_s=5.0,
    systems=[
        SiteLatencies(
            system="weak",
            local=Medians(p50_ms=1.0, sites_ms=[1.0, 1.0, 1.0]),
            distant=Medians(p50_ms=1.1, sites_ms=[1.0, 1.1, 1.25]),
        ),
        SiteLatencies(
            system="etcd",
            local=Medians(p50_ms=2.0, sites_ms=[2.0, 2.0, 2.0]),
            distant=Medians(p50_ms=160.0, sites_ms=[82.0, 160.0, 161.5]),
        ),
    ],
)


def test_the_table_contains_each_system_with_its_extreme_sites() -> None:
    rows = markdown(FIGURES).splitlines()[2:]

    assert rows == [
        "| Creek, weak | 1.00 | 1.10 | 1.00 | 1.25 | 1.10 × |",
        "| etcd | 2.00 | 160.00 | 82.00 | 161.50 | 80.00 × |",
    ]


def test_medians_are_per_site_and_over_all_sites() -> None:
    assert summarise([[1_000_000, 2_000_000, 3_000_000], [9_000_000]]) == Medians(
        p50_ms=2.5, sites_ms=[2.0, 9.0]
    )


def _run(tmp_path: Path, figures: Figures) -> tuple[int, str, Path]:
    earlier, out = tmp_path / "geography.json", tmp_path / "out"
    earlier.write_bytes(msgspec.json.encode(figures))
    result = CliRunner().invoke(main, ["--from", str(earlier), "--out", str(out)])
    return result.exit_code, result.output, out


def test_an_earlier_run_is_drawn_again(tmp_path: Path) -> None:
    code, output, out = _run(tmp_path, FIGURES)

    assert code == 0
    assert read(out / "geography.json") == FIGURES
    assert (out / "geography.md").read_text() == markdown(FIGURES) + "\n"
    picture = (out / "geography.svg").read_text()
    assert "Creek, weak" in picture
    assert "40 ms apart" in picture
    assert "1.10 ×" in output


def test_weak_puts_that_wait_for_other_sites_miss_the_bar(tmp_path: Path) -> None:
    weak = msgspec.structs.replace(
        FIGURES.systems[0], distant=Medians(p50_ms=1.3, sites_ms=[1.3] * 3)
    )

    code, output, _ = _run(tmp_path, msgspec.structs.replace(FIGURES, systems=[weak]))

    assert code == 1
    assert "missed: weak puts take 1.30 × their local median; the bar is 1.2" in output


@pytest.mark.parametrize("content", [b"", b"{}"])
def test_an_unreadable_run_is_an_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    path.write_bytes(content)

    result = CliRunner().invoke(main, ["--from", str(path), "--out", str(tmp_path)])

    assert result.exit_code == 1
    assert f"cannot read figures from {path}" in result.output
