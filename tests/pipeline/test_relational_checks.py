"""Relational checkers, compared with the checkers of the same names on the same histories."""

from collections import Counter
from random import Random
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

from creekdb.checkers import CHECKERS, Illegal, Ok, RunIndex, Verdict
from creekdb.evaluation import build_simulation
from creekdb.history import CheckpointInstalled, History
from creekdb.pipeline.checks.committed_order import POSITIONS_PER_BUCKET
from creekdb.pipeline.checks.relational import find_violations
from creekdb.pipeline.checks.shared_frames import SharedFrames
from creekdb.pipeline.checks.verdict_names import RELATIONAL_CHECKERS
from creekdb.pipeline.stages.run_tables import tables_of_history, tables_of_simulation
from creekdb.simulation.fuzz.scenario_generator import scenario_from_seed
from tests.pipeline.corruptions import CORRUPTIONS
from tests.pipeline.spark_tables import Frames, Row, final_states, frame, frames

SEEDS = {"basic": range(8), "creek": range(20, 28), "smr": range(5), "bayou": range(5)}
SEEDS |= {"archie": range(5)}
VARIANTS_PER_CORRUPTION = 2
NAMESAKES = {each.name: each for each in CHECKERS if each.name in RELATIONAL_CHECKERS}


class CheckedHistory(NamedTuple):
    """History with the results of both kinds of checkers."""

    history: History
    is_corrupted: bool
    by_checkers: dict[str, Verdict]
    by_relations: dict[str, Row]

    def verdicts(self, checker: str) -> tuple[str, str]:
        """Return the verdict of the checker, and of its relational namesake."""
        verdict, row = self.by_checkers[checker], self.by_relations.get(checker)
        return type(verdict).__name__.lower(), row["verdict"] if row else "ok"


@pytest.fixture(scope="module")
def histories() -> dict[str, History]:
    histories: dict[str, History] = {}
    for scheme, seeds in SEEDS.items():
        for seed in seeds:
            history = build_simulation(scenario_from_seed(seed, scheme)).run().history
            histories[f"{scheme}-{seed}"] = history
            for name, corrupt in CORRUPTIONS.items():
                for number in range(VARIANTS_PER_CORRUPTION):
                    corrupted = corrupt(history, Random(f"{seed} {number}"))
                    histories[f"{scheme}-{seed}-{name}-{number}"] = corrupted
    return histories


class Tables(NamedTuple):
    frames: Frames
    final_states: DataFrame

    def violations(self, bucket_size: int) -> list[Row]:
        with SharedFrames() as shared:
            found = find_violations(*self.frames, self.final_states, shared, bucket_size)
            return [row.asDict() for row in found.orderBy("run", "checker").collect()]


def tables_of(spark: SparkSession, histories: dict[str, History]) -> Tables:
    run_tables = [tables_of_history(name, history) for name, history in histories.items()]
    return Tables(frames(spark, run_tables), frame(spark, final_states(histories)))


@pytest.fixture(scope="module")
def violations(spark: SparkSession, histories: dict[str, History]) -> list[Row]:
    return tables_of(spark, histories).violations(POSITIONS_PER_BUCKET)


@pytest.fixture(scope="module")
def checked(histories: dict[str, History], violations: list[Row]) -> dict[str, CheckedHistory]:
    by_relations: dict[str, dict[str, Row]] = {name: {} for name in histories}
    for row in violations:
        by_relations[row["run"]][row["checker"]] = row
    return {
        name: CheckedHistory(
            history,
            name.count("-") > 1,
            {checker: check(RunIndex(history)) for checker, check in NAMESAKES.items()},
            by_relations[name],
        )
        for name, history in histories.items()
    }


def test_violations_do_not_depend_on_the_size_of_buckets(
    spark: SparkSession, histories: dict[str, History], violations: list[Row]
) -> None:
    """Every third history, of all schemes and corruptions, in many small buckets."""
    some = dict(list(histories.items())[::3])
    expected = [row for row in violations if row["run"] in some]
    assert {row["checker"] for row in expected} == {row["checker"] for row in violations}

    assert tables_of(spark, some).violations(bucket_size=5) == expected


def test_unchanged_histories_have_no_violations(checked: dict[str, CheckedHistory]) -> None:
    wrong = {
        name: each.by_relations
        for name, each in checked.items()
        if not each.is_corrupted
        and any(row["verdict"] == "illegal" for row in each.by_relations.values())
    }
    assert wrong == {}


def test_relational_violations_are_confirmed_by_checkers(
    checked: dict[str, CheckedHistory],
) -> None:
    wrong = {
        (name, checker): row
        for name, each in checked.items()
        for checker, row in each.by_relations.items()
        if row["verdict"] == "illegal"
        and checker in NAMESAKES
        and isinstance(each.by_checkers["prefix_order"], Ok)
        and not isinstance(each.by_checkers[checker], Illegal)
    }
    assert wrong == {}


def test_both_agree_on_prefix_order(checked: dict[str, CheckedHistory]) -> None:
    """Histories with installed checkpoints are excluded, since tables do not hold checkpoints."""
    differing = {
        name: (each.verdicts("prefix_order"), each.by_checkers["prefix_order"], each.by_relations)
        for name, each in checked.items()
        if not has_checkpoints(each.history) and len(set(each.verdicts("prefix_order"))) > 1
    }
    assert differing == {}


def has_checkpoints(history: History) -> bool:
    return any(
        isinstance(each.event, CheckpointInstalled) for log in history.logs for each in log.events
    )


@pytest.mark.parametrize("checker", ["real_time", "session_order"])
def test_both_agree_if_replicas_have_one_order(
    checked: dict[str, CheckedHistory], checker: str
) -> None:
    differing = {
        name: (each.verdicts(checker), each.by_checkers[checker], each.by_relations.get(checker))
        for name, each in checked.items()
        if isinstance(each.by_checkers["prefix_order"], Ok) and len(set(each.verdicts(checker))) > 1
    }
    assert differing == {}


def test_histories_cover_both_verdicts_of_every_checker(
    checked: dict[str, CheckedHistory],
) -> None:
    kinds = Counter(
        (checker, type(verdict))
        for each in checked.values()
        for checker, verdict in each.by_checkers.items()
    )
    for checker in NAMESAKES:
        assert kinds[checker, Illegal] >= 20
        assert kinds[checker, Ok] >= 20


@pytest.mark.parametrize("scheme", SEEDS)
def test_a_run_and_its_history_yield_equal_orders(scheme: str) -> None:
    for seed in SEEDS[scheme][:4]:
        scenario = scenario_from_seed(seed, scheme)
        run = build_simulation(scenario).run()
        assert (
            tables_of_simulation("run", scenario, run).orders
            == tables_of_history("run", run.history).orders
        )
