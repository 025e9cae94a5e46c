"""Relational checkers say of a run what the checkers of the same names say of its history."""

from collections import Counter
from random import Random
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from creekdb.checkers import CHECKERS, Illegal, Ok, RunIndex, Verdict
from creekdb.evaluation import build_simulation
from creekdb.history import CheckpointInstalled, History
from creekdb.pipeline.stages.relational_checks import RELATIONAL_CHECKERS as RELATIONS
from creekdb.pipeline.stages.relational_checks import find_violations
from creekdb.pipeline.stages.run_tables import tables_of_history, tables_of_simulation
from creekdb.simulation.fuzz.scenario_generator import scenario_from_seed
from tests.pipeline.broken import BREAKINGS
from tests.pipeline.tabled import Row, frames

SEEDS = {"basic": range(12), "creek": range(20, 32), "smr": range(8), "bayou": range(8)}
SEEDS |= {"archie": range(8)}
BREAKINGS_EACH = 2
NAMESAKES = {each.name: each.check for each in CHECKERS if each.name in RELATIONS}


class Judged(NamedTuple):
    history: History
    is_broken: bool
    by_checkers: dict[str, Verdict]
    by_relations: dict[str, Row]

    def said(self, checker: str) -> tuple[str, str]:
        """By the one, and by the other."""
        verdict, row = self.by_checkers[checker], self.by_relations.get(checker)
        return type(verdict).__name__.lower(), row["verdict"] if row else "ok"


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Judged]:
    histories: dict[str, History] = {}
    for scheme, seeds in SEEDS.items():
        for seed in seeds:
            history = build_simulation(scenario_from_seed(seed, scheme)).run().history
            histories[f"{scheme}-{seed}"] = history
            for name, breaking in BREAKINGS.items():
                for number in range(BREAKINGS_EACH):
                    broken = breaking(history, Random(f"{seed} {number}"))
                    histories[f"{scheme}-{seed}-{name}-{number}"] = broken
    made = frames(spark, [tables_of_history(name, history) for name, history in histories.items()])
    relations = find_violations(*made).collect()
    by_relations: dict[str, dict[str, Row]] = {name: {} for name in histories}
    for row in relations:
        by_relations[row["run"]][row["checker"]] = row.asDict()
    return {
        name: Judged(
            history,
            name.count("-") > 1,
            {checker: check(RunIndex(history)) for checker, check in NAMESAKES.items()},
            by_relations[name],
        )
        for name, history in histories.items()
    }


def test_relations_find_nothing_in_runs_as_they_were(judged: dict[str, Judged]) -> None:
    wrong = {
        name: each.by_relations
        for name, each in judged.items()
        if not each.is_broken
        and any(row["verdict"] == "illegal" for row in each.by_relations.values())
    }
    assert wrong == {}


def test_relations_accuse_nobody_wrongly(judged: dict[str, Judged]) -> None:
    wrong = {
        (name, checker): row
        for name, each in judged.items()
        for checker, row in each.by_relations.items()
        if row["verdict"] == "illegal"
        and checker in NAMESAKES
        and isinstance(each.by_checkers["prefix_order"], Ok)
        and not isinstance(each.by_checkers[checker], Illegal)
    }
    assert wrong == {}


def test_both_agree_on_the_orders_of_replicas(judged: dict[str, Judged]) -> None:
    """But for what checkpoints tell: tables do not hold them."""
    differ = {
        name: (each.said("prefix_order"), each.by_checkers["prefix_order"], each.by_relations)
        for name, each in judged.items()
        if not has_checkpoints(each.history) and len(set(each.said("prefix_order"))) > 1
    }
    assert differ == {}


def has_checkpoints(history: History) -> bool:
    return any(
        isinstance(each.event, CheckpointInstalled) for log in history.logs for each in log.events
    )


@pytest.mark.parametrize("checker", ["real_time", "session_order"])
def test_both_agree_where_there_is_one_order(judged: dict[str, Judged], checker: str) -> None:
    differ = {
        name: (each.said(checker), each.by_checkers[checker], each.by_relations.get(checker))
        for name, each in judged.items()
        if isinstance(each.by_checkers["prefix_order"], Ok) and len(set(each.said(checker))) > 1
    }
    assert differ == {}


def test_every_rule_is_broken_and_kept_by_many_runs(judged: dict[str, Judged]) -> None:
    kinds = Counter(
        (checker, type(verdict))
        for each in judged.values()
        for checker, verdict in each.by_checkers.items()
    )
    for checker in NAMESAKES:
        assert kinds[checker, Illegal] >= 20
        assert kinds[checker, Ok] >= 20


@pytest.mark.parametrize("scheme", SEEDS)
def test_a_run_and_its_history_tell_of_the_same_orders(scheme: str) -> None:
    for seed in SEEDS[scheme][:4]:
        scenario = scenario_from_seed(seed, scheme)
        run = build_simulation(scenario).run()
        assert (
            tables_of_simulation("run", scenario, run).orders
            == tables_of_history("run", run.history).orders
        )
