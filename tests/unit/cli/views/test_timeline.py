"""The timeline shows what happened to replicas and links, and the calls that came in vain."""

from creekdb.cli.views.timeline import timeline_lines
from creekdb.datatypes import get_datatype
from creekdb.simulation.faults.language import parse_faults
from creekdb.simulation.fuzz.campaign import build_fuzz_simulation
from creekdb.simulation.kernel.scenario import ClientModel, Scenario, ScriptedInvocation
from creekdb.simulation.models.parameters import DiskModel


def shown(faults: str, *calls: tuple[int, int], disk: DiskModel | None = None) -> list[str]:
    """A run of 100 ms with a strong `open` at each (ms, replica)."""
    scenario = Scenario(
        datatype="bank",
        duration_us=100_000,
        clients=ClientModel(sessions=0),
        disk=disk or DiskModel(),
        faults=parse_faults(faults),
        script=tuple(
            ScriptedInvocation(
                ms * 1000, replica, get_datatype("bank").call("open", f"a{ms}", 1), True
            )
            for ms, replica in calls
        ),
    )
    return [
        line.plain.strip() for line in timeline_lines(build_fuzz_simulation(scenario).run().history)
    ][2:]


END = "100  ── the end: clients stop, and whatever is broken is healed"


def test_a_crash_a_death_a_cut_and_a_restart_have_a_line_each() -> None:
    assert shown("crash 1 at 10ms; die 2 at 20ms; cut 0>3 at 30ms; restart 1 at 40ms") == [
        "10  ── replica 1 crashes (○)",
        "20  ── replica 2 dies (○): it never comes back",
        "30  ── nothing gets from 0 to 3 any more",
        "40  ── replica 1 restarts",
        END,
    ]


def test_a_replica_that_the_end_brings_back_restarts_after_it() -> None:
    assert shown("crash 1 at 10ms") == [
        "10  ── replica 1 crashes (○)",
        END,
        "100  ── replica 1 restarts",
    ]


def test_a_crash_or_restart_without_effect_has_none() -> None:
    assert shown("restart 0 at 5ms; die 1 at 10ms; crash 1 at 20ms; restart 1 at 30ms") == [
        "10  ── replica 1 dies (○): it never comes back",
        END,
    ]


def test_a_crash_in_the_middle_of_a_write_is_shown_when_it_strikes() -> None:
    disk = DiskModel(fsync_us_min=1000, fsync_us_max=1000)
    lines = shown("crash-writing 1 at 10ms", (30, 1), disk=disk)

    assert lines[0] == "10  ── replica 1 is to crash when it writes to disk next"
    struck = next(line for line in lines if line.endswith("replica 1 crashes (○)"))
    assert 10 < int(struck.split()[0]) < 35


def test_a_call_that_found_its_replica_down_is_a_row_that_says_so() -> None:
    lines = shown("crash 1 at 10ms; restart 1 at 40ms", (5, 0), (20, 1), (60, 1))

    (missed,) = [line for line in lines if "down" in line]
    assert missed.split() == [
        "20",
        "·─○─·─·─·",
        "strong",
        "open",
        "a20",
        "1",
        *["replica", "1", "is", "down"],
    ]
    assert any(line.startswith("60  ·─●─·─·─·") for line in lines)


def test_nothing_is_shown_of_faults_after_the_end() -> None:
    assert shown("partition 0,1 at 10ms; heal at 20ms; cut 0>1 at 200ms") == [
        "10  ── the network breaks into 0,1 and 2,3,4; only 2,3,4 are a majority",
        "20  ── the network heals",
    ]
