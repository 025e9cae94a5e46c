"""The timeline shows events of replicas and links, and calls that found their replica down."""

from creekdb.cli.views.timeline import outcome_text, timeline_lines
from creekdb.datatypes import get_datatype
from creekdb.protocol.request import Outcome
from creekdb.simulation.faults.language import parse_faults
from creekdb.simulation.fuzz.campaign import build_fuzz_simulation
from creekdb.simulation.kernel.scenario import ClientModel, Scenario, ScriptedInvocation
from creekdb.simulation.models.parameters import DiskModel


def shown(faults: str, *calls: tuple[int, int], disk: DiskModel | None = None) -> list[str]:
    """Return the timeline of a run of 100 ms with a strong `open` at each (ms, replica)."""
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


END = "100  ── the end: clients stop, and all faults are healed"


def test_crash_death_cut_and_restart_have_one_line_each() -> None:
    assert shown("crash 1 at 10ms; die 2 at 20ms; cut 0>3 at 30ms; restart 1 at 40ms") == [
        "10  ── replica 1 crashes (○)",
        "20  ── replica 2 dies (○) and never restarts",
        "30  ── messages from 0 to 3 are dropped",
        "40  ── replica 1 restarts",
        END,
    ]


def test_a_replica_restarted_by_the_end_follows_its_heading() -> None:
    assert shown("crash 1 at 10ms") == [
        "10  ── replica 1 crashes (○)",
        END,
        "100  ── replica 1 restarts",
    ]


def test_a_crash_or_restart_without_effect_has_no_line() -> None:
    assert shown("restart 0 at 5ms; die 1 at 10ms; crash 1 at 20ms; restart 1 at 30ms") == [
        "10  ── replica 1 dies (○) and never restarts",
        END,
    ]


def test_a_crash_during_a_write_is_shown_when_it_takes_effect() -> None:
    disk = DiskModel(fsync_us_min=1000, fsync_us_max=1000)
    lines = shown("crash-writing 1 at 10ms", (30, 1), disk=disk)

    assert lines[0] == "10  ── replica 1 will crash at its next disk write"
    crash = next(line for line in lines if line.endswith("replica 1 crashes (○)"))
    assert 10 < int(crash.split()[0]) < 35


def test_a_call_to_a_replica_that_is_down_has_a_row() -> None:
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


def test_faults_after_the_end_are_not_shown() -> None:
    assert shown("partition 0,1 at 10ms; heal at 20ms; cut 0>1 at 200ms") == [
        "10  ── the network splits into 0,1 and 2,3,4; only 2,3,4 has a majority",
        "20  ── the network heals",
    ]


def test_a_changed_final_response_has_a_row_of_its_own() -> None:
    """Both replicas open the account, and one of them learns later that it was second."""
    scenario = Scenario(
        datatype="bank",
        duration_us=100_000,
        clients=ClientModel(sessions=0),
        faults=parse_faults("partition 0|1,2,3,4 at 5ms; heal at 60ms"),
        script=tuple(
            ScriptedInvocation(
                10_000 + replica, replica, get_datatype("bank").call("open", "ann", 1), False
            )
            for replica in (0, 1)
        ),
    )
    lines = timeline_lines(build_fuzz_simulation(scenario).run().history)
    (changed,) = [line.plain for line in lines if " final " in line.plain]

    assert "open ann 1" in changed
    assert "✗ ann has an account already" in changed


def test_an_error_is_shown_by_its_message() -> None:
    assert outcome_text(Outcome(3)) == "3"
    assert outcome_text(Outcome(error="ValueError: no account")) == "✗ no account"
    assert outcome_text(Outcome(error="ValueError")) == "✗ ValueError"
