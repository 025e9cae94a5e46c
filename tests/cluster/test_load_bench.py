"""`creek bench` on a cluster that it starts, and on a running cluster."""

import json
from pathlib import Path
from time import perf_counter_ns

import pytest

from creekdb.checkers import Illegal, check_all
from creekdb.cli.app import main
from creekdb.evaluation import datatype_of_history
from creekdb.history import load_run
from creekdb.load.local_cluster import LocalCluster
from creekdb.load.measurement import (
    STRONG_STABLE,
    WEAK_FINAL,
    WEAK_TENTATIVE,
    LoadMeter,
    latency_summary,
)
from creekdb.load.workload import WorkloadCall, kv_workload, tpcc_workload
from creekdb.pipeline.stages import run_tables
from creekdb.wire.reject_reason import RejectReason

SHORT = ["--duration", "2s", "--warm-up", "200ms", "--json"]
"""Options for a run that is long enough for a response on any machine."""


def test_bench_stores_a_run_that_checkers_and_tables_accept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "run"
    command = ["bench", "tpcc", "--warehouses", "1", "--load", "60", "--layout", "sql"]
    assert main([*command, "--out", str(out), *SHORT]) == 0
    captured = capsys.readouterr()
    summary = json.loads(captured.out)
    assert captured.err.count("\n") == 1  # the path of the run; no progress bar without a terminal
    assert summary["throughput_per_s"] > 0
    assert {"replica 0", "replica 1", "replica 2", "the load"} == set(summary["cpu_us"])
    history = load_run(out)
    assert any(each.stable is not None for each in history.operations)
    verdicts = check_all(history, datatype_of_history(history))
    assert not [each.describe() for each in verdicts if isinstance(each, Illegal)]
    (row,) = run_tables.tables_of_history("run", history).runs.to_pylist()
    assert row["load_tps"] == 60
    assert (row["warehouses"], row["layout"]) == (1, "sql")
    assert row["end_us"] - row["begin_us"] == 2_000_000
    assert any(row["begin_us"] <= each.invoked_us <= row["end_us"] for each in history.operations)
    assert list(tmp_path.iterdir()) == [out]


def test_bench_measures_a_running_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = LocalCluster(tmp_path, replicas=1)
    cluster.start()
    try:
        command = [
            "bench",
            "kv",
            "--at",
            cluster.addresses[0],
            "--strong-share",
            "0.5",
            "--reads",
            "0.5",
        ]
        assert main([*command, "--clients", "4", *SHORT]) == 0
        other = main(["bench", "tpcc", "--at", cluster.addresses[0], *SHORT])
    finally:
        cluster.stop()
    output = capsys.readouterr()
    assert other == 2
    assert "the cluster replicates 'kv', not 'tpcc-rows-5-0'" in output.err
    summary = json.loads(output.out)
    assert summary["weak_per_s"] > 0
    assert summary["strong_per_s"] > 0
    assert summary["errors"] == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--clients", "1", "--load", "1"], "exclude each other"),
        (["--at", "127.0.0.1:1", "--replicas", "3"], "exclude each other"),
        (["--at", "127.0.0.1:1", "--out", "run"], "creek gather"),
        (["--out", "."], "name a new directory"),
        (["--out", str(Path(__file__).parent)], "never overwritten"),
        (["--strong-share", "2"], "from 0 to 1"),
        (["--value-bytes", "0"], "value size in bytes must be at least 1"),
        (["--at", "nowhere"], "HOST:PORT"),
    ],
)
def test_invalid_bench_options_are_rejected(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "kv", *options]) == 2
    assert message in capsys.readouterr().err


def test_the_meter_counts_only_between_warm_up_and_end() -> None:
    now = perf_counter_ns()
    meter = LoadMeter(now + 100, now + 200)
    meter.record_response(WEAK_TENTATIVE, now + 50, now + 90)  # before
    meter.record_response(
        WEAK_TENTATIVE, now + 90, now + 110
    )  # completed in the interval, but called before
    meter.record_response(STRONG_STABLE, now + 110, now + 150)
    meter.record_response(WEAK_FINAL, now + 110, now + 190)
    meter.record_response(STRONG_STABLE, now + 150, now + 210)  # after
    meter.record_failure(RejectReason.BUSY, now + 99)
    meter.record_failure(RejectReason.BUSY, now + 101)
    assert (meter.weak_completed, meter.strong_completed) == (1, 1)
    assert [list(each) for each in meter.latencies_ns] == [[], [80], [], [40]]
    assert meter.errors == {RejectReason.BUSY: 1}


def test_percentiles_use_the_nearest_rank_like_simulations() -> None:
    latencies = latency_summary([each * 1_000_000 for each in range(1, 101)])
    assert latencies is not None
    assert (latencies.answers, latencies.p50, latencies.p95, latencies.p99, latencies.max) == (
        100,
        50,
        95,
        99,
        100,
    )
    few = latency_summary([1_000_000, 2_000_000, 3_000_000])
    assert few is not None
    assert (few.p50, few.p95, few.p99) == (2, 3, 3)
    assert latency_summary([]) is None


def test_workloads_depend_only_on_their_seed() -> None:
    def draw(seed: int) -> list[WorkloadCall]:
        stream = kv_workload(keys=9, value_bytes=8, reads=0.5, strong=0.5, seed=seed)
        return [stream(0) for _ in range(50)]

    assert draw(1) == draw(1) != draw(2)
    assert {(each.operation, each.strong) for each in draw(1)} == {
        (name, strong) for name in ("put", "get") for strong in (True, False)
    }
    calls = [tpcc_workload("tpcc-rows-1-0", 3, None, 5)(each % 3) for each in range(30)]
    assert all(each.strong == (each.operation == "payment") for each in calls)
