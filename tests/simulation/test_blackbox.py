"""Black-box checkers accept simulated clusters, and find planted faults without any record."""

from collections import Counter

import pytest

from creekdb.checkers import Illegal, Verdict
from creekdb.checkers.blackbox.simulated_runs import judge_history
from creekdb.evaluation import build_simulation
from creekdb.execution.python_runtime import build_kind
from creekdb.simulation.fuzz.campaign import run_seed
from creekdb.simulation.fuzz.scenario_generator import scenario_from_seed
from tests.mutants.catalogue import ordering
from tests.mutants.planting import plant

MUTANTS = {each.name: each for each in ordering.MUTANTS}


@pytest.mark.parametrize("scheme", ["creek", "smr"])
def test_random_clusters_are_linearizable(scheme: str) -> None:
    verdicts: Counter[str] = Counter()
    for seed in range(8):
        history = build_simulation(scenario_from_seed(seed, scheme)).run().history
        for verdict in judge_history(history, steps_max=20_000):
            assert not isinstance(verdict, Illegal), (seed, verdict.describe())
            verdicts[verdict.checker] += 1
    assert verdicts["linearizability"] >= 6
    assert verdicts["exactly once"] == 8


@pytest.mark.skipif(build_kind() != "interpreted", reason="code of compiled functions is fixed")
@pytest.mark.parametrize(
    ("name", "seed", "checker"),
    [
        ("stable_response_before_commit", 3, "linearizability"),
        ("final_response_hides_change", 1, "exactly once"),
    ],
)
def test_planted_faults_are_visible_to_clients(
    name: str, seed: int, checker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = scenario_from_seed(seed, "basic")
    assert not illegal_checkers(judge_history(build_simulation(scenario).run().history))

    plant(MUTANTS[name], monkeypatch)
    assert checker in illegal_checkers(judge_history(build_simulation(scenario).run().history))


def illegal_checkers(verdicts: list[Verdict]) -> list[str]:
    return [each.checker for each in verdicts if isinstance(each, Illegal)]


def test_every_run_of_the_fuzzer_is_judged() -> None:
    checkers = {each.checker for seed in range(2) for each in run_seed(seed, "creek").verdicts}

    assert checkers >= {"exactly once", "linearizability"}
