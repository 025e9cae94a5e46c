"""Replicas of all simulated runs are watched here, but for those in processes of their own."""

import pytest

from creekdb.simulation.fuzz import campaign
from tests.simulation.leisure import watched


@pytest.fixture(autouse=True)
def watching(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seed fails, too, where an answer waits for other replicas."""
    monkeypatch.setattr(campaign, "simulation_of", watched)
