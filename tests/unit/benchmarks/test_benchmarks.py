"""Every benchmark runs, and measures what it says. Nothing here looks at a time."""

from functools import partial
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from benchmarks import __main__ as command
from benchmarks import heal, replica, simulator
from benchmarks.measuring import Timed, cheapest
from benchmarks.registry import BENCHMARKS
from benchmarks.result import Result
from benchmarks.scale import TINY
from benchmarks.workloads import execute
from creekdb.protocol.probes import Probe

ROLLED_BACK = {Probe.ROLLED_BACK, Probe.REEXECUTED}


@pytest.mark.parametrize(
    "name",
    [
        # Those that start Spark run where all tests do that start it.
        pytest.param(name, marks=pytest.mark.xdist_group("spark") if "pipeline" in name else ())
        for name in BENCHMARKS
    ],
)
def test_a_benchmark_gives_as_many_results_as_it_says(name: str) -> None:
    results = list(BENCHMARKS[name].measure(TINY))

    assert len(results) == BENCHMARKS[name].results
    assert len({result.what for result in results}) == len(results)
    assert all(result.explanation.endswith(".") for result in results)


# --- what is measured is what the sentence says -------------------------------------------------


def test_what_is_invoked_is_executed() -> None:
    subject = replica.Invoke(10)
    subject.ready(3)
    subject.act()

    assert len(subject.replica.tentative_ids()) == 13
    assert subject.replica.state() == {"value": 13}


def test_what_is_delivered_is_executed() -> None:
    subject = replica.Deliver(10)
    subject.ready(3)
    subject.act()

    assert len(subject.replica.tentative_ids()) == 13
    assert subject.replica.state() == {"value": 13}


def test_what_is_delivered_late_comes_behind_what_is_executed() -> None:
    subject = replica.DeliverLate(20)
    for _ in range(2):
        subject.ready(4)
        subject.act()

    order = subject.replica.tentative_ids()
    assert len(order) == 28
    assert subject.replica.state() == {"value": 10}
    assert all(id.replica == 1 for id in order[:11])
    assert subject.replica.rejected == {}


@pytest.mark.parametrize("weak_per_strong", [1, 10])
def test_commits_are_in_order_and_the_list_is_filled_up_again(weak_per_strong: int) -> None:
    subject = replica.Commit(weak_per_strong, 44)
    for round_ in range(1, 4):
        subject.ready(22)
        assert len(subject.replica.tentative_ids()) == 44
        subject.act()
        assert subject.replica.committed_length() == 22 * round_

    assert len(subject.replica.tentative_ids()) == 22
    assert execute(subject.replica) == 0
    assert subject.replica.probes.counts.keys().isdisjoint(ROLLED_BACK)


def test_a_life_keeps_the_list_as_long_as_it_was() -> None:
    subject = replica.Life(40)
    subject.ready(20)
    subject.act()

    assert subject.replica.committed_length() == 20
    assert len(subject.replica.tentative_ids()) == 40
    assert subject.replica.probes.counts.keys().isdisjoint(ROLLED_BACK)


@pytest.mark.parametrize("split", heal.SPLITS, ids=lambda split: split.what)
def test_only_a_partition_makes_replicas_execute_again(split: heal.Split) -> None:
    assert heal.run(split, 100, partitioned=False).executions == pytest.approx(1, abs=0.05)
    assert heal.run(split, 100, partitioned=True).executions > 1.1


def test_a_replay_ends_where_the_simulation_ended() -> None:
    scenario = simulator.typical(50_000)
    recording = simulator.Recording()
    run = simulator.simulate(scenario, recording)
    assert run.history.operations
    assert run == simulator.simulate(scenario)

    for execute_too in (False, True):
        replicas = simulator.replay(scenario, recording, execute_too)
        assert [each.committed_ids() for each in replicas] == [
            final.committed for final in run.history.final_states
        ]


# --- measuring ------------------------------------------------------------------------------------


def test_a_comparison_is_repeated_until_it_is_enough() -> None:
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
    done = CliRunner().invoke(command.main, ["order", "--quick", "--json", str(path)])

    assert done.exit_code == 0
    assert "What it costs." in done.output
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
    done = CliRunner().invoke(command.main, [])

    assert done.exit_code == 1
    assert "missed: that" in done.output


def test_an_exact_bar_is_missed_from_both_sides() -> None:
    exact = Result(what="it", explanation="How often.", value=3, bar=3, exact=True)

    assert exact.verdict == "ok"
    assert msgspec.structs.replace(exact, value=2).missed
    assert msgspec.structs.replace(exact, value=4).missed


def test_an_unknown_name_is_the_callers_mistake() -> None:
    done = CliRunner().invoke(command.main, ["speed"])

    assert done.exit_code == 2
    assert "order" in done.output


def test_the_command_measures_what_it_is_asked_for() -> None:
    assert len(command.measure(("journal",), TINY)) == BENCHMARKS["journal"].results


def test_its_help_names_each_benchmark_and_breaks_no_name() -> None:
    told = CliRunner().invoke(command.main, ["--help"]).output
    assert "Usage: main [OPTIONS] [NAME]..." in told
    assert set(BENCHMARKS) <= set(told.replace(",", "").split())
