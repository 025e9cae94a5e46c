"""`creek simulate --workload tpcc`: measured runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from creekdb import tpcc
from creekdb.cli import main
from creekdb.tpcc import ConsistencyViolation

TPCC = ["simulate", "--workload", "tpcc", "--warehouses", "1", "--duration", "100ms"]

KEYS = {
    "scheme",
    "warehouses",
    "load_tps",
    "seed",
    "throughput_tps",
    "weak_tentative_ms",
    "strong_tentative_ms",
    "strong_stable_ms",
    "accuracy",
    "exact_accuracy",
    "execution_ratio",
    "cpu_utilisation",
    "network_utilisation",
    "trace_hash",
    "saturated",
    "backlog",
    "messages_per_operation",
}


def measure(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*TPCC, "--json", *arguments]) == 0
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    return shown


def test_json_has_every_measure(capsys: pytest.CaptureFixture[str]) -> None:
    shown = measure(capsys, "--scheme", "creek", "--load", "2000")

    assert shown.keys() >= KEYS
    for name in ("weak_tentative_ms", "strong_tentative_ms", "strong_stable_ms"):
        assert shown[name].keys() == {"answers", "mean", "p50", "p95", "p99"}
    assert (shown["warehouses"], shown["layout"], shown["load_tps"]) == (1, "rows", 2000)
    assert shown["violated"] == []
    assert shown["saturated"] is False
    assert 0.9 < shown["exact_accuracy"] <= shown["accuracy"] <= 1 <= shown["execution_ratio"] < 2
    assert shown["strong_tentative_ms"]["p50"] < 0.2 < shown["strong_stable_ms"]["p50"]
    assert shown["messages_per_operation"]["Cast"] > 1


@pytest.mark.parametrize("scheme", ["creek", "differential"])
def test_layout_sql_satisfies_the_consistency_conditions(
    scheme: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = measure(capsys, "--scheme", scheme, "--layout", "sql", "--load", "1000")

    assert (shown["layout"], shown["violated"]) == ("sql", [])
    assert shown["weak_tentative_ms"]["answers"] > 30


def test_read_only_operations_run_on_all_replicas_without_local_reads(
    capsys: pytest.CaptureFixture[str],
) -> None:
    everywhere = measure(capsys, "--scheme", "creek", "--load", "1000")
    local = measure(capsys, "--scheme", "creek", "--load", "1000", "--local-reads")

    assert local["weak"] == everywhere["weak"]
    assert local["committed"] < everywhere["committed"]
    assert local["executions"] < everywhere["executions"]


def test_payment_is_strong_without_a_strong_share(capsys: pytest.CaptureFixture[str]) -> None:
    paper = measure(capsys, "--load", "1000")
    weak = measure(capsys, "--load", "1000", "--strong-share", "0")
    strong = measure(capsys, "--load", "1000", "--strong-share", "1")

    assert paper["strong_kinds"] == ["payment"]
    assert 0.2 < paper["strong"] / (paper["strong"] + paper["weak"]) < 0.7
    assert (weak["strong"], strong["weak"]) == (0, 0)
    assert weak["weak"] == strong["strong"] == paper["strong"] + paper["weak"]


def test_a_scheme_without_tentative_responses_is_measured_by_its_stable_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = measure(capsys, "--scheme", "smr", "--load", "500")

    assert shown["weak_tentative_ms"] == shown["weak_stable_ms"]
    assert shown["strong_tentative_ms"] is None
    assert shown["execution_ratio"] == 1


def test_withheld_responses_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    shown = measure(capsys, "--scheme", "archie", "--load", "1000")

    assert shown["weak_tentative_ms"]["answers"] == shown["weak_stable_ms"]["answers"]
    assert shown["strong_speculated_ms"]["p50"] <= shown["strong_stable_ms"]["p99"]
    assert shown["accuracy"] == 1


def test_concurrency_bounds_the_executions_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    load = ("--scheme", "archie", "--load", "3000", "--duration", "40ms")
    one, sixteen = (measure(capsys, *load, "--concurrency", each) for each in ("1", "16"))

    assert sixteen["trace_hash"] == measure(capsys, *load)["trace_hash"]
    assert one["cpu_utilisation"] <= 1 / 16 < sixteen["cpu_utilisation"]


def test_an_excessive_load_saturates(capsys: pytest.CaptureFixture[str]) -> None:
    shown = measure(capsys, "--scheme", "smr", "--load", "4000")

    assert shown["saturated"] is True
    assert shown["backlog"] > 50
    assert shown["throughput_tps"] < 3500


def test_the_layout_is_configurable(capsys: pytest.CaptureFixture[str]) -> None:
    shown = measure(capsys, "--scheme", "creek", "--layout", "fine", "--replicas", "3")

    assert (shown["layout"], shown["datatype"]) == ("fine", "tpcc-fine-1-0")
    assert shown["violated"] == []


def test_the_default_is_the_creek_of_the_paper(capsys: pytest.CaptureFixture[str]) -> None:
    shown = measure(capsys, "--load", "1000")

    assert (shown["extensions"], shown["regions"], shown["clock_skew_us"]) == ([], 1, 0)


def test_extensions_are_selected_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = measure(capsys, "--load", "3000", "--extensions", "footprints,estimates")

    assert chosen["extensions"] == ["estimates", "footprints"]


def test_an_unknown_extension_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TPCC, "--extensions", "speed"]) == 2
    assert "unknown extension 'speed'" in capsys.readouterr().err


def test_messages_between_regions_take_longer(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--load", "200", "--regions", "3", "--replicas", "3", "--clock-skew", "2ms")
    assert main([*TPCC, *arguments, "--duration", "1s", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)

    assert (shown["regions"], shown["clock_skew_us"]) == (3, 2000)
    assert shown["weak_tentative_ms"]["p50"] < 5 < 40 < shown["strong_stable_ms"]["p50"]


def test_a_saved_run_is_recorded_and_can_be_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = str(tmp_path / "run")
    arguments = ["--scheme", "creek", "--load", "500", "--fault", "crash 1 at 50ms"]

    shown = measure(capsys, *arguments, "--out", directory)
    verdicts = {each["checker"]: each["verdict"] for each in shown["verdicts"]}

    assert verdicts["replay"] == "ok"
    assert main(["check", directory]) == 0
    assert "replay" in capsys.readouterr().out


def test_a_violated_condition_is_reported_with_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*arguments: object, **options: object) -> list[ConsistencyViolation]:
        return [ConsistencyViolation("3.3.2.1", ("warehouse", 1), "a sum is wrong")]

    monkeypatch.setattr(tpcc, "find_violations", broken)

    assert main([*TPCC, "--load", "500"]) == 1
    violation = "replica 0, 1, 2, 3, 4: condition 3.3.2.1 at ('warehouse', 1): a sum is wrong"
    assert violation in capsys.readouterr().out
