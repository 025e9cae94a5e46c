"""A replica whose clock is ahead of all others."""

from pathlib import Path

from tests.cluster import faults_clock
from tests.cluster.faults_story import Cluster, tell

AHEAD_US = 10_000_000


def test_a_clock_that_is_ahead_is_reported_and_nobody_waits_for_it(tmp_path: Path) -> None:
    programs = {2: (str(Path(faults_clock.__file__)), str(AHEAD_US))}

    async def story(cluster: Cluster) -> None:
        load = await cluster.load(150)
        await load.reaches(60)
        told = await cluster.until(lambda said: "2" in said[0]["clocks_ahead_us"], 0)
        assert AHEAD_US - 5_000_000 < told[0]["clocks_ahead_us"]["2"] <= AHEAD_US
        cluster.processes.kill(2)
        del programs[2]  # it comes back with a clock that is right
        cluster.processes.start(2)
        await load.reaches(120)

    tell(tmp_path, story, programs=programs)
