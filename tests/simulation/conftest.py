"""Watch on the replicas of all simulated runs, except runs in worker processes."""

import pytest

from creekdb.simulation.fuzz import campaign
from tests.simulation.idle_watch import build_watched_simulation


@pytest.fixture(autouse=True)
def watch_idle_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a seed also if a response waits for other replicas."""
    monkeypatch.setattr(campaign, "build_fuzz_simulation", build_watched_simulation)
