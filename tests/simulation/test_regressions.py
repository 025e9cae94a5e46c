"""Seeds that once failed. Each stays, with what it found."""

import pytest

from creekdb.simulation.fuzz.campaign import run_seed

FOUND = {
    291: "a new leader proposed an instance that it had decided out of order",
    409: "decisions were forgotten before a checkpoint stood for them",
    862: "a crash in mid-write left a checkpoint of what nobody could know",
    1280: "a replica led that heard some and was heard by others",
    1788: "requests were pulled again and again from a peer that could not be reached",
    1205: "a strong request outlived, for ever tentative, the only copies of its causal context",
}
FOUND_IN_CREEK = {
    2368: "a register was forgotten while one who had read it was running",
    64: "an answer left while what its session had done before was executed again",
    1656: "what a snapshot brought was told to others before it was on disk",
}
FOUND_IN_SMR = {
    764: "a checker took a vote in vain, found on the disk and told of, for a lie",
}


@pytest.mark.parametrize("seed", FOUND)
def test_a_seed_that_once_failed_passes(seed: int) -> None:
    finding = run_seed(seed, twice=True)

    assert not finding.has_failed, f"{FOUND[seed]}\n{finding.describe()}"


@pytest.mark.parametrize("seed", FOUND_IN_CREEK)
def test_a_seed_of_creek_that_once_failed_passes(seed: int) -> None:
    finding = run_seed(seed, "both", twice=True)

    assert not finding.has_failed, f"{FOUND_IN_CREEK[seed]}\n{finding.describe()}"


@pytest.mark.parametrize("seed", FOUND_IN_SMR)
def test_a_seed_of_smr_that_once_failed_passes(seed: int) -> None:
    finding = run_seed(seed, "smr", twice=True)

    assert not finding.has_failed, f"{FOUND_IN_SMR[seed]}\n{finding.describe()}"
