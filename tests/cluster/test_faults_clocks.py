"""Real processes, one of them with a clock that is ahead."""

from pathlib import Path

from tests.cluster import skewed_clock
from tests.cluster.fault_scenario import fault_scenario

SKEW_US = 10_000_000


async def test_a_clock_that_is_ahead_is_reported_and_delays_no_call(tmp_path: Path) -> None:
    programs = {2: (str(Path(skewed_clock.__file__)), str(SKEW_US))}
    async with fault_scenario(tmp_path, programs=programs) as cluster:
        load = await cluster.load(150)
        await load.until_completed(60)
        statuses = await cluster.until(lambda statuses: "2" in statuses[0]["clocks_ahead_us"], 0)
        assert SKEW_US - 5_000_000 < statuses[0]["clocks_ahead_us"]["2"] <= SKEW_US
        cluster.processes.kill(2)
        del programs[2]  # restarts with a correct clock
        cluster.processes.start(2)
        await load.until_completed(120)
