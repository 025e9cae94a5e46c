"""Regression seeds: each once failed, and stays with a description of the bug."""

import pytest

from creekdb.protocol.extensions import extension_switches
from creekdb.simulation.fuzz.campaign import Overrides, run_seed

REGRESSIONS = {
    291: "a new leader proposed an instance that it had decided out of order",
    409: "decisions were discarded before a checkpoint covered them",
    862: "a crash during a write left a checkpoint of events that had not become visible",
    1280: "a replica led that received from some replicas and sent to others",
    1788: "requests were pulled repeatedly from an unreachable peer",
    258: "a leader proposed a held request that had been delivered meanwhile",
    51962: "a cut named an origin twice, because the strong request between was delivered before",
    1205: "a strong request stayed tentative after the only copies of its causal context were lost",
}
CREEK_REGRESSIONS = {
    2368: "a register was discarded while a request that had read it was executing",
    64: "a response was sent while an earlier call of its session was re-executed",
    1656: "the content of a snapshot was sent to others before it was durable",
    216: "a leader proposed a held request that had been delivered meanwhile",
    3014: "a checker split the cut of a batch at a strong request that was already delivered",
    15596: "a checker took a delivery that was lost for one of a checkpoint recovered later",
}
FAST_PATH_REGRESSIONS = {
    2388: "a checker took a strong request for the lost weak one whose number it has",
}
EXTENDED_REGRESSIONS = {
    40655: "a checker applied a cut to a lost delivery of another request with the same number",
}
SQL_REGRESSIONS = {
    0: "a checker repeated a local read at the time of its call, not at that of its replica",
}
SMR_REGRESSIONS = {
    764: "a checker rejected a promise with a vote that was recovered from disk after a crash",
}


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_regression_seeds_pass_with_basic(seed: int) -> None:
    result = run_seed(seed, twice=True)

    assert not result.has_failed, f"{REGRESSIONS[seed]}\n{result.describe()}"


@pytest.mark.parametrize("seed", CREEK_REGRESSIONS)
def test_regression_seeds_pass_with_creek(seed: int) -> None:
    result = run_seed(seed, "differential", twice=True)

    assert not result.has_failed, f"{CREEK_REGRESSIONS[seed]}\n{result.describe()}"


@pytest.mark.parametrize("seed", FAST_PATH_REGRESSIONS)
def test_regression_seeds_pass_with_the_fast_path(seed: int) -> None:
    overrides = Overrides(switches=extension_switches("fast_path"))
    result = run_seed(seed, "creek", overrides=overrides)

    assert not result.has_failed, f"{FAST_PATH_REGRESSIONS[seed]}\n{result.describe()}"


@pytest.mark.parametrize("seed", EXTENDED_REGRESSIONS)
def test_regression_seeds_pass_with_all_extensions(seed: int) -> None:
    overrides = Overrides(switches=extension_switches("all"))
    result = run_seed(seed, "creek", overrides=overrides)

    assert not result.has_failed, f"{EXTENDED_REGRESSIONS[seed]}\n{result.describe()}"


@pytest.mark.parametrize("seed", SQL_REGRESSIONS)
def test_regression_seeds_pass_with_sql(seed: int) -> None:
    result = run_seed(seed, "creek", overrides=Overrides(datatype="sql"))

    assert not result.has_failed, f"{SQL_REGRESSIONS[seed]}\n{result.describe()}"


@pytest.mark.parametrize("seed", SMR_REGRESSIONS)
def test_regression_seeds_pass_with_smr(seed: int) -> None:
    result = run_seed(seed, "smr", twice=True)

    assert not result.has_failed, f"{SMR_REGRESSIONS[seed]}\n{result.describe()}"
