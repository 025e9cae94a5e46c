"""Every benchmark runs and measures the operations that it names. Times are not checked."""

import gc
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from benchmarks import __main__ as command
from benchmarks import heal, live_sql, replica, simulator
from benchmarks.registry import BENCHMARKS
from benchmarks.result import Benchmark, Result
from benchmarks.scale import TINY, Scale
from benchmarks.timing import Timed, cheapest
from benchmarks.workloads import execute
from creekdb.protocol.probes import Probe

ROLLED_BACK = {Probe.ROLLED_BACK, Probe.REEXECUTED}


@pytest.fixture(autouse=True)
def few_collected_objects() -> None:
    """Exclude the objects of earlier tests from the collections of the benchmarks."""
    gc.freeze()


@pytest.mark.parametrize(
    "name",
    [
        # Benchmarks that start Spark run in the group of all Spark tests.
        pytest.param(name, marks=pytest.mark.xdist_group("spark") if "pipeline" in name else ())
        for name in BENCHMARKS
    ],
)
def test_a_benchmark_yields_its_declared_number_of_results(name: str) -> None:
    results = list(BENCHMARKS[name].measure(TINY))

    assert len(results) == BENCHMARKS[name].results
    assert len({result.what for result in results}) == len(results)
    assert all(result.explanation.endswith(".") for result in results)


# --- measured operations ------------------------------------------------------------------------


def test_invoked_requests_are_executed() -> None:
    subject = replica.Invoke(10)
    subject.prepare(3)
    subject.perform()

    assert len(subject.replica.view.tentative_ids()) == 13
    assert subject.replica.view.state() == {"value": 13}


def test_delivered_requests_are_executed() -> None:
    subject = replica.Deliver(10)
    subject.prepare(3)
    subject.perform()

    assert len(subject.replica.view.tentative_ids()) == 13
    assert subject.replica.view.state() == {"value": 13}


def test_late_requests_are_positioned_after_the_executed_ones() -> None:
    subject = replica.DeliverLate(20)
    for _ in range(2):
        subject.prepare(4)
        subject.perform()

    order = subject.replica.view.tentative_ids()
    assert len(order) == 28
    assert subject.replica.view.state() == {"value": 10}
    assert all(id.replica == 1 for id in order[:11])
    assert subject.replica.view.rejected == {}


@pytest.mark.parametrize("weak_per_strong", [1, 10])
def test_commits_are_in_order_and_the_list_is_refilled(weak_per_strong: int) -> None:
    subject = replica.Commit(weak_per_strong, 44)
    for round_ in range(1, 4):
        subject.prepare(22)
        assert len(subject.replica.view.tentative_ids()) == 44
        subject.perform()
        assert subject.replica.view.committed_length() == 22 * round_

    assert len(subject.replica.view.tentative_ids()) == 22
    assert execute(subject.replica) == 0
    assert subject.replica.view.probes.counts.keys().isdisjoint(ROLLED_BACK)


def test_a_life_cycle_keeps_the_length_of_the_list() -> None:
    subject = replica.LifeCycle(40)
    subject.prepare(20)
    subject.perform()

    assert subject.replica.view.committed_length() == 20
    assert len(subject.replica.view.tentative_ids()) == 40
    assert subject.replica.view.probes.counts.keys().isdisjoint(ROLLED_BACK)


@pytest.mark.parametrize("split", heal.SPLITS, ids=lambda split: split.what)
def test_only_a_partition_causes_re_executions(split: heal.Split) -> None:
    assert heal.run(split, 100, partitioned=False).executions == pytest.approx(1, abs=0.05)
    assert heal.run(split, 100, partitioned=True).executions > 1.1


def test_a_replay_ends_in_the_states_of_the_simulation() -> None:
    scenario = simulator.fault_free_scenario(50_000)
    recording = simulator.Recording()
    run = simulator.simulate(scenario, recording)
    assert run.history.operations
    assert run == simulator.simulate(scenario)

    for with_execution in (False, True):
        replicas = simulator.replay(scenario, recording, with_execution)
        assert [each.view.committed_ids() for each in replicas] == [
            final.committed for final in run.history.final_states
        ]


# --- timing ---------------------------------------------------------------------------------------


def test_a_comparison_is_repeated_until_it_suffices() -> None:
    rounds: list[str] = []

    def prepare(name: str) -> Timed:
        rounds.append(name)
        return Timed(1, lambda: None)

    cheapest([partial(prepare, "a"), partial(prepare, "b")], 2, enough=lambda _: len(rounds) > 5)
    assert rounds == ["a", "b"] * 3

    rounds.clear()
    cheapest([partial(prepare, "a")], 2, enough=lambda _: False)
    assert rounds == ["a"] * 6


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def one_result(monkeypatch: pytest.MonkeyPatch) -> list[Result]:
    results = [Result(what="it", explanation="What it costs.", value=1.5, bar=2.0)]
    monkeypatch.setattr(command, "measure", lambda _names, _scale: results)
    return results


def test_the_command_prints_a_table_and_writes_json(
    one_result: list[Result], tmp_path: Path
) -> None:
    path = tmp_path / "results.json"
    result = CliRunner().invoke(command.main, ["order", "--quick", "--json", str(path)])

    assert result.exit_code == 0
    assert "What it costs." in result.output
    assert msgspec.json.decode(path.read_bytes()) == [
        {
            "what": "it",
            "explanation": "What it costs.",
            "value": 1.5,
            "unit": "×",
            "bar": 2.0,
            "exact": False,
            "verdict": "ok",
        }
    ]


def test_a_missed_bar_is_an_exit_code(one_result: list[Result]) -> None:
    one_result.append(msgspec.structs.replace(one_result[0], what="that", value=2.5))
    result = CliRunner().invoke(command.main, [])

    assert result.exit_code == 1
    assert "missed: that" in result.output


def test_an_exact_bar_is_missed_from_both_sides() -> None:
    exact = Result(what="it", explanation="How often.", value=3, bar=3, exact=True)

    assert exact.verdict == "ok"
    assert msgspec.structs.replace(exact, value=2).missed
    assert msgspec.structs.replace(exact, value=4).missed


def test_a_comparison_without_its_competitor_is_neither_held_nor_missed(
    one_result: list[Result],
) -> None:
    one_result.append(msgspec.structs.replace(one_result[0], what="that", value=None))
    result = CliRunner().invoke(command.main, [])

    assert result.exit_code == 0
    assert [each.verdict for each in one_result] == ["ok", "not measured"]
    assert "not measured: that\n" in result.output


def test_sql_is_not_measured_beside_missing_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = [each._replace(is_installed=lambda: False) for each in live_sql.COMPETITORS]
    monkeypatch.setattr(live_sql, "COMPETITORS", missing)
    results = list(live_sql.BENCHMARK.measure(TINY))

    assert len(results) == live_sql.BENCHMARK.results
    assert {each.verdict for each in results} == {"not measured"}


def test_an_unknown_name_is_a_usage_error() -> None:
    result = CliRunner().invoke(command.main, ["speed"])

    assert result.exit_code == 2
    assert "order" in result.output


def test_the_command_runs_the_selected_benchmarks() -> None:
    assert len(list(command.measure(("journal",), TINY))) == BENCHMARKS["journal"].results


def test_a_failing_benchmark_keeps_earlier_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(scale: Scale) -> Iterator[Result]:
        yield Result(what="first", explanation="", value=2.0)
        raise RuntimeError("broken")

    monkeypatch.setattr(command, "BENCHMARKS", {"dots": Benchmark("dots", 2, fail)})
    file = tmp_path / "results.json"
    result = CliRunner().invoke(command.main, ["dots", "--json", str(file)])

    assert str(result.exception) == "broken"
    assert "first" in result.output
    assert [each["value"] for each in msgspec.json.decode(file.read_bytes())] == [2.0]


def test_the_help_names_each_benchmark_without_line_breaks() -> None:
    help_text = CliRunner().invoke(command.main, ["--help"]).output
    assert "Usage: main [OPTIONS] [NAME]..." in help_text
    assert set(BENCHMARKS) <= set(help_text.replace(",", "").split())
