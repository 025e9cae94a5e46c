"""Seeds that once failed. Each stays, with what it found."""

import pytest

from creek.simulation.fuzz import examine

FOUND = {
    291: "a new leader proposed an instance that it had decided out of order",
}


@pytest.mark.parametrize("seed", FOUND)
def test_a_seed_that_once_failed_passes(seed: int) -> None:
    finding = examine(seed, twice=True)

    assert not finding.failed, f"{FOUND[seed]}\n{finding.describe()}"
