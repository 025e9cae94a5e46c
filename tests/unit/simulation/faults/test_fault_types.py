"""Fault schedules: validation, the fault language, and random generation."""

from collections.abc import Callable, Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.errors import BadValue, UnknownName
from creekdb.simulation.faults.fault_types import (
    FAULT_FORMS,
    Add,
    BaseFault,
    ClockJump,
    ClockSkew,
    Crash,
    Cut,
    Die,
    Duplication,
    FailDisk,
    Fault,
    Garbage,
    Heal,
    LoseDisk,
    Loss,
    Partition,
    Remove,
    Reordering,
    ReplicaFault,
    Restart,
    RollbackDisk,
    Sever,
    SlowCpu,
    SlowDisk,
    Spike,
    check_faults,
    form,
    forms_of,
)
from creekdb.simulation.faults.fields import (
    ROUNDED,
    Duration,
    ReplicaNumber,
    format_duration_rounded,
    parse_duration_us,
)
from creekdb.simulation.faults.injector import FaultInjector
from creekdb.simulation.faults.language import (
    describe_fault,
    fault_examples,
    format_fault,
    parse_fault,
    parse_faults,
)
from creekdb.simulation.fuzz.fault_generator import draw_faults
from creekdb.simulation.kernel.scenario import Scenario
from creekdb.simulation.kernel.seeds import derive_generator
from tests.unit.simulation.toy_replica import build_toy_simulation

FAULTS_BY_TEXT: dict[str, Fault] = {
    "crash 2 at 150ms": Crash(150_000, 2),
    "crash-writing 2 at 150ms": Crash(150_000, 2, writing=True),
    "restart 2 at 1s": Restart(1_000_000, 2),
    "partition 0,1|2,3,4 at 1s": Partition(1_000_000, ((0, 1), (2, 3, 4))),
    "die 2 at 1s": Die(1_000_000, 2),
    "die-telling 2 at 1s": Die(1_000_000, 2, telling=True),
    "lose-disk 2 for 50ms at 1s": LoseDisk(1_000_000, 2, 50_000),
    "rollback-disk 2 by 200ms for 50ms at 1s": RollbackDisk(1_000_000, 2, 200_000, 50_000),
    "cut 0>1 at 100ms": Cut(100_000, 0, 1),
    "sever 0>1 at 100ms": Sever(100_000, 0, 1),
    "heal at 2s": Heal(2_000_000),
    "loss 0.1 at 0s": Loss(0, 0.1),
    "duplication 0.25 at 1ms": Duplication(1_000, 0.25),
    "reordering 0.5 by 3ms at 1ms": Reordering(1_000, 0.5, 3_000),
    "spike x5.0 for 100ms at 1ms": Spike(1_000, 100_000, 5.0),
    "jump 3 by -1h at 1ms": ClockJump(1_000, 3, -3_600_000_000),
    "skew 3 by 1d at 1ms": ClockSkew(1_000, 3, 86_400_000_000),
    "slow-disk 1 by 20ms for 300ms at 1ms": SlowDisk(1_000, 1, 300_000, 20_000),
    "fail-disk 1 for 300ms at 1ms": FailDisk(1_000, 1, 300_000),
    "slow-cpu 1 x10.0 for 300ms at 1ms": SlowCpu(1_000, 1, 300_000, 10.0),
    "garbage 0.05 for 7us at 1ms": Garbage(1_000, 7, 0.05),
    "flips 0.05 for 7us at 1ms": Garbage(1_000, 7, 0.05, flips=True),
}


@pytest.mark.parametrize(("text", "fault"), FAULTS_BY_TEXT.items(), ids=FAULTS_BY_TEXT.keys())
def test_faults_round_trip_through_text(text: str, fault: Fault) -> None:
    assert parse_fault(text) == fault
    assert format_fault(fault) == text


def test_entries_end_at_semicolons_and_line_breaks() -> None:
    text = "crash 2 at 150ms; restart 2 at 1s;\n\n heal at 2s\n"
    assert parse_faults(text) == (Crash(150_000, 2), Restart(1_000_000, 2), Heal(2_000_000))


def test_clauses_are_unordered_and_probabilities_may_be_percentages() -> None:
    assert parse_fault("garbage at 1s for 2s 50%") == Garbage(1_000_000, 2_000_000, 0.5)
    assert parse_fault("reordering 10% at 1s") == Reordering(1_000_000, 0.1, 5_000)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("crash 2", "'at' and a duration are missing"),
        ("crash at 1s", "a replica is missing"),
        ("crash two at 1s", "'two' is not a replica"),
        ("crash -1 at 1s", "'-1' is not a replica"),
        ("crash 2 3 at 1s", "'3' is unexpected"),
        ("crash 2 for 1s at 1s", "'for' is unexpected"),
        ("crash 2 at 1", "'1' is not a duration"),
        ("crash 2 at 10 ms", "fault 'crash 2 at 10 ms': '10 ms' has a space before its unit"),
        ("crash 2 at -1s", "must not be negative"),
        ("crash 2 at", "'at' needs one duration"),
        ("cut 0-1 at 1s", "a direction such as 0>1"),
        ("partition 0,1|1,2 at 1s", "names a replica twice"),
        ("partition 0,|1 at 1s", "is not a replica"),
        ("loss 120% at 1s", "between 0 and 1"),
        ("loss much at 1s", "a probability such as 10% or 0.1"),
        ("spike for 1s at 1s", "a factor such as x5"),
        ("spike x0 for 1s at 1s", "above 0"),
        ("slow-disk 1 by -1ms for 1s at 1s", "must not be negative"),
    ],
)
def test_invalid_entries_are_rejected_with_a_one_line_error(text: str, problem: str) -> None:
    with pytest.raises(BadValue) as caught:
        parse_fault(text)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_error_for_an_unknown_fault_lists_the_known_ones() -> None:
    with pytest.raises(
        UnknownName, match=r"unknown fault 'meteor': expected one of add, crash, .*spike"
    ):
        parse_fault("meteor at 1s")


def test_every_fault_has_a_valid_example() -> None:
    with pytest.raises(UnknownName) as caught:
        parse_fault("meteor at 1s")
    names = str(caught.value).partition("expected one of ")[2].split(", ")
    assert sorted(example.split()[0] for example, _ in fault_examples()) == names
    for example, _ in fault_examples():
        assert format_fault(parse_fault(example)).split()[0] == example.split()[0]


def test_rounded_durations_have_three_significant_digits() -> None:
    rounded = {
        0: "0s",
        7: "7us",
        53_312: "53.3ms",
        700_851: "701ms",
        999_960: "1s",
        1_500_000: "1.5s",
        -2_345_678: "-2.35s",
        100_000_000: "1.67m",
        86_400_000_000: "1d",
    }
    assert {each: format_duration_rounded(each) for each in rounded} == rounded
    assert format_fault(Spike(1_234, 56_789, 5.0), ROUNDED) == "spike x5 for 56.8ms at 1.23ms"


def test_durations_have_units() -> None:
    assert [parse_duration_us(text) for text in ("7us", "1.5ms", "2s", "1m", "-1h", "1d")] == [
        7,
        1_500,
        2_000_000,
        60_000_000,
        -3_600_000_000,
        86_400_000_000,
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Crash(-1, 0),
        lambda: Loss(0, 1.5),
        lambda: Duplication(0, -0.1),
        lambda: Spike(0, -1, 2.0),
        lambda: SlowCpu(0, 0, 1, 0.0),
        lambda: Garbage(0, 1, 2.0),
        lambda: Reordering(0, 0.1, -5),
        lambda: LoseDisk(0, 1, -5),
        lambda: RollbackDisk(10, 1, 11, 0),
    ],
)
def test_constructors_reject_invalid_faults(make: Callable[[], Fault]) -> None:
    with pytest.raises(BadValue):
        make()


@pytest.mark.parametrize(
    "fault", [Crash(0, 3), Partition(0, ((0,), (1, 3))), Cut(0, 3, 0), Cut(0, 0, 3)]
)
def test_faults_that_name_an_unknown_replica_are_rejected(fault: Fault) -> None:
    check_faults([fault], replicas=4)
    with pytest.raises(BadValue, match=r"names replica 3, which does not exist: .* 0 to 2"):
        check_faults([fault], replicas=3)


def test_severed_links_must_leave_a_connected_majority() -> None:
    check_faults([Sever(0, 0, 1)], replicas=3)
    check_faults([Sever(0, 0, 1), Sever(0, 1, 2)], replicas=3)
    schedules: tuple[tuple[Fault, ...], ...] = (
        (Sever(0, 0, 1), Sever(0, 1, 2), Sever(0, 2, 0)),
        (Sever(0, 0, 1), Die(0, 2)),
        (Sever(0, 1, 0), Die(0, 2, telling=True)),
    )
    for faults in schedules:
        with pytest.raises(BadValue, match="no majority that is connected both ways"):
            check_faults(faults, replicas=3)


def test_a_disk_loss_requires_that_all_initial_members_stay() -> None:
    lost = LoseDisk(0, 1, 0)
    check_faults([lost, LoseDisk(0, 1, 0), Crash(0, 2), Partition(0, ((0,), (1, 2)))], replicas=3)
    with pytest.raises(BadValue, match="no other replica has its state"):
        check_faults([LoseDisk(0, 0, 0)], replicas=1)
    others: tuple[Fault, ...] = (Die(0, 2), Add(0, 3), Remove(0, 2), Sever(0, 0, 2))
    for each in others:
        with pytest.raises(BadValue, match="must receive the state of every initial member"):
            check_faults([lost, each], replicas=3)


@given(st.integers(0, 2**32), st.integers(1, 7), st.integers(1, 2_000_000))
def test_random_schedules_are_valid_and_round_trip_through_text_and_json(
    seed: int, replicas: int, duration_us: int
) -> None:
    faults = draw_faults(derive_generator(seed, "faults"), replicas, duration_us)
    check_faults(faults, replicas)
    assert [each.at_us for each in faults] == sorted(each.at_us for each in faults)
    assert parse_faults(";".join(map(format_fault, faults))) == faults
    encoded = msgspec.json.encode(faults)
    assert msgspec.json.decode(encoded, type=tuple[Fault, ...]) == faults


def test_random_schedules_contain_every_fault_type_and_are_sometimes_empty() -> None:
    schedules_drawn = [
        draw_faults(derive_generator(seed, "faults"), 5, 1_000_000) for seed in range(300)
    ]
    assert {type(fault) for schedule in schedules_drawn for fault in schedule} == {
        type(each) for each in FAULTS_BY_TEXT.values()
    } - {Die, FailDisk, LoseDisk, RollbackDisk, Sever}
    assert () in schedules_drawn


@pytest.fixture
def pause_type() -> Iterator[type[BaseFault]]:
    """A fault of its own, defined by one class and removed after the test."""

    @form("pause 1 for 20ms at 1s", "replica 1 is slow")
    @form("pause-all for 20ms at 1s", "... nor any other", "all")
    class Pause(ReplicaFault, frozen=True):
        replica: ReplicaNumber = 0
        duration_us: Duration = 0
        all: bool = False

        def inject(self, injector: FaultInjector) -> None:
            for node in injector.nodes if self.all else (injector.nodes[self.replica],):
                injector.set_for(self.duration_us, node.cpu, "slowdown_factor", 9.0)

    yield Pause
    for each in forms_of(Pause):
        FAULT_FORMS.remove(each)


def test_a_new_fault_is_one_class(pause_type: Callable[..., BaseFault]) -> None:
    pause = pause_type(5_000, 2, 20_000)
    assert format_fault(pause) == "pause 2 for 20ms at 5ms"
    assert parse_faults("pause 2 for 20ms at 5ms; pause-all for 1s at 0s") == (
        pause,
        pause_type(0, duration_us=1_000_000, all=True),
    )
    with pytest.raises(BadValue, match="a duration of -1000 us"):
        parse_fault("pause 2 for -1ms at 5ms")
    with pytest.raises(BadValue, match="pause names replica 2, which does not exist"):
        check_faults([pause], replicas=2)
    assert fault_examples()[-2:] == [
        ("pause 1 for 20ms at 1s", "replica 1 is slow"),
        ("pause-all for 20ms at 1s", "... nor any other"),
    ]

    simulation = build_toy_simulation(Scenario(replicas=3, duration_us=40_000, faults=(pause,)))
    factors: dict[int, list[float]] = {}

    def observe(at_us: int) -> None:
        factors[at_us] = [node.cpu.slowdown_factor for node in simulation.nodes]

    for at_us in (4_000, 6_000, 26_000):
        simulation.heap.schedule_at(at_us, observe, at_us)
    simulation.run()
    normal = [1.0, 1.0, 1.0]
    assert factors == {4_000: normal, 6_000: [1.0, 1.0, 9.0], 26_000: normal}


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("crash 2 at 1s", "replica 2 is killed (kill -9)"),
        ("restart 2 at 1s", "replica 2 is restarted"),
        ("partition 0|1,2 at 1s", "the network is partitioned: 0 | 1, 2"),
        ("heal at 1s", "the network heals"),
        ("loss 0.1 at 1s", "loss 0.1"),
    ],
)
def test_faults_are_described_for_live_clusters(text: str, description: str) -> None:
    assert describe_fault(parse_fault(text)) == description
