"""Regression seeds: each once failed, and stays with a description of the bug."""

import pytest

from creekdb.protocol.extensions import extension_switches
from creekdb.simulation.fuzz.campaign import Overrides, run_seed

NO_EXTENSIONS = Overrides(switches=extension_switches("none"))
LATE_CONTEXTS = Overrides(switches=extension_switches("late_contexts"))
FAST_PATH = Overrides(switches=extension_switches("fast_path"))
ALL_EXTENSIONS = Overrides(switches=extension_switches("all"))
SQL = Overrides(datatype="sql")

REGRESSIONS = [
    ("basic", 291, "a new leader proposed an instance that it had decided out of order"),
    ("basic", 409, "decisions were discarded before a checkpoint covered them"),
    ("basic", 862, "a crash in a write left a checkpoint of events that had not become visible"),
    ("basic", 1280, "a replica led that received from some replicas and sent to others"),
    ("basic", 1788, "requests were pulled repeatedly from an unreachable peer"),
    ("basic", 258, "a leader proposed a held request that had been delivered meanwhile"),
    ("basic", 51962, "a cut named an origin twice: a strong request between was delivered"),
    ("basic", 1205, "a strong request stayed tentative: all of its causal context was lost"),
    ("differential", 2368, "a register was discarded while a request that had read it executed"),
    ("differential", 64, "a response was sent while an earlier call of its session re-executed"),
    ("differential", 1656, "the content of a snapshot was sent to others before it was durable"),
    ("differential", 216, "a leader proposed a held request that had been delivered meanwhile"),
    ("differential", 3014, "a checker split a cut at a strong request that was delivered already"),
    ("differential", 15596, "a checker took a lost delivery for one of a later checkpoint"),
    ("smr", 764, "a checker rejected a promise with a vote recovered from disk after a crash"),
]
OVERRIDDEN_REGRESSIONS = [
    (NO_EXTENSIONS, 42860, "readers of a sum were missed after its last addition had moved"),
    (FAST_PATH, 2388, "a checker took a strong request for the lost weak one with its number"),
    (ALL_EXTENSIONS, 40655, "a checker applied a cut to a lost delivery of another request"),
    (LATE_CONTEXTS, 48574, "a checker applied a cut to a delivery on a vote that a crash lost"),
    (LATE_CONTEXTS, 41028, "a checker required a strong request that a checkpoint had omitted"),
    (SQL, 0, "a checker repeated a local read at the time of its call, not that of its replica"),
]


@pytest.mark.parametrize(("scheme", "seed", "bug"), REGRESSIONS)
def test_regression_seeds_pass(scheme: str, seed: int, bug: str) -> None:
    result = run_seed(seed, scheme, twice=True)

    assert not result.has_failed, f"{bug}\n{result.describe()}"


@pytest.mark.parametrize(("overrides", "seed", "bug"), OVERRIDDEN_REGRESSIONS)
def test_regression_seeds_of_creek_pass(overrides: Overrides, seed: int, bug: str) -> None:
    result = run_seed(seed, "creek", overrides=overrides)

    assert not result.has_failed, f"{bug}\n{result.describe()}"
