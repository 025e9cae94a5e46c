"""The leader replaces late members of its fast quorum, in simulated time.

Every message takes 250 us. So each deadline is 250 us after the call, the fast path responds after
500 us, and the path through the leader after 750 us.
"""

from itertools import pairwise
from typing import NamedTuple

import pytest

from creekdb import datatypes
from creekdb.protocol.effects import ResponseKind
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Operation
from creekdb.schemes import registry
from creekdb.simulation.faults.language import parse_faults
from creekdb.simulation.kernel.cluster import Simulation
from creekdb.simulation.kernel.scenario import ClientModel, Scenario, ScriptedInvocation
from creekdb.simulation.models.parameters import CpuModel, DiskModel, NetworkModel

FAST_US, SLOW_US = 500, 750
BEGIN_US, FAULT_US, RECOVERED_US, END_US = 50_000, 100_000, 170_000, 250_000
LEADER, QUORUM = 1, (1, 0, 2)
"""Leader of these runs, and its fast quorum at the beginning."""


class Calls(NamedTuple):
    latencies_us: dict[int, int]
    """Latency of the stable response, by the time of the call."""
    probes: dict[Probe, int]

    def between(self, begin_us: int, end_us: int) -> set[int]:
        """Return the latencies of the calls in a period."""
        return {each for at, each in self.latencies_us.items() if begin_us <= at < end_us}


def run_calls(
    faults: str, *, end_us: int = END_US, every_us: int = 1_000, latency_us: int = 250
) -> Calls:
    """Call strong operations at regular intervals, at replicas 0 and 3 by turns."""
    call = Operation("increment", (1,))
    script = tuple(
        ScriptedInvocation(at_us, 3 * (number % 2), call, strong=True)
        for number, at_us in enumerate(range(BEGIN_US, end_us, every_us))
    )
    scenario = Scenario(
        seed=1,
        scheme="creek",
        datatype="counter",
        replicas=5,
        duration_us=end_us,
        clients=ClientModel(sessions=0),
        cpu=CpuModel(execution_us=0),
        disk=DiskModel(fsync_us_min=0, fsync_us_max=0),
        network=NetworkModel(
            latency_us_min=latency_us, latency_us_max=latency_us, bandwidth_bps=10**12
        ),
        settings={"fast_path": 1},
        faults=parse_faults(faults),
        script=script,
    )
    scheme, settings = registry.get_scheme("creek"), scenario.protocol_settings()
    datatype = datatypes.get_datatype("counter")
    simulation = Simulation(
        scenario, lambda index: scheme(index, settings, datatype), datatypes.SAMPLERS["counter"]
    )
    run = simulation.run()
    assert run.quiescence_failure is None
    latencies = {
        operation.invoked_us: response.at_us - operation.invoked_us
        for operation in run.history.operations
        for response in operation.responses
        if response.kind is ResponseKind.STABLE
    }
    assert len(latencies) == len(script)
    return Calls(latencies, run.probes)


@pytest.mark.parametrize(
    "fault",
    [
        "crash 2 at 100ms",
        "slow-disk 2 by 5ms for 100ms at 100ms",
        "cut 2>1 at 100ms",
    ],
)
def test_decisions_return_to_two_delays_when_a_member_fails(fault: str) -> None:
    calls = run_calls(fault)

    assert calls.between(BEGIN_US, FAULT_US) == {FAST_US}
    assert calls.between(RECOVERED_US, END_US) == {FAST_US}
    assert calls.probes[Probe.FAST_QUORUM_CHANGED] == 1


def test_until_then_decisions_take_three_delays() -> None:
    calls = run_calls("crash 2 at 100ms")
    slow = [at for at, latency in calls.latencies_us.items() if latency != FAST_US]

    assert slow == list(range(FAULT_US, FAULT_US + 1_000 * len(slow), 1_000))
    assert calls.between(FAULT_US, slow[-1]) == {SLOW_US}, "but for the one of the new ballot"


def test_a_few_calls_are_enough() -> None:
    """The leader suspects the member, although it makes no sample."""
    calls = run_calls("crash 2 at 100ms", every_us=20_000, end_us=400_000)

    assert calls.between(BEGIN_US, FAULT_US) == {FAST_US}
    assert calls.between(RECOVERED_US + 10_000, 400_000) == {FAST_US}


def test_members_that_fail_by_turns_cause_few_ballots() -> None:
    """Each of them is unreachable for 70 ms, and suspected for less."""
    times = range(100, 1_800, 140)
    cuts = [f"cut {(0, 2, 3, 4)[number % 4]}>1 at {at}ms" for number, at in enumerate(times)]
    heals = [f"heal at {at + 70}ms" for at in times]
    calls = run_calls("; ".join(cuts + heals), end_us=2_000_000, every_us=10_000)

    assert 1 < calls.probes[Probe.FAST_QUORUM_CHANGED] < len(times) // 2


def test_a_lasting_quorum_causes_no_ballot() -> None:
    calls = run_calls("", end_us=1_000_000, every_us=10_000)

    assert Probe.FAST_QUORUM_CHANGED not in calls.probes
    assert Probe.FAST_PATH_PAUSED not in calls.probes


def test_the_fast_path_begins_although_many_requests_are_in_flight() -> None:
    """A message takes as long as seven calls. Until followers know the leader's order, their first
    votes are wrong."""
    calls = run_calls("", latency_us=5_000, every_us=700)
    times = sorted(calls.latencies_us)

    assert all(later - earlier == 700 for earlier, later in pairwise(times))
    assert calls.between(BEGIN_US + 20_000, END_US) == {10_000}
