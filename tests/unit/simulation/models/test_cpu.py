"""Cores: a line of tasks, a duration for each, and a crash that empties them."""

import pytest

from creekdb.errors import BadValue
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.effects import Task, TaskKind
from creekdb.protocol.request import Outcome
from creekdb.simulation.kernel.simulated_time import EventHeap
from creekdb.simulation.models.cpu import Cpu
from creekdb.simulation.models.parameters import CpuModel
from tests.unit.simulation.toy_replica import request


class Bench:
    """A `Cpu` whose tasks take 10 us and log when they start and end."""

    def __init__(self, cores: int) -> None:
        self.heap = EventHeap()
        self.log: list[tuple[int, str, int]] = []
        self.cpu = Cpu(self.heap, cores, lambda task, execution: 10, self._run, self._done)

    def submit(self, *numbers: int) -> None:
        for number in numbers:
            self.cpu.submit(task(number))

    def _run(self, task: Task) -> ExecutionResult:
        self.log.append((self.heap.now_us, "start", task.number))
        return ExecutionResult(outcome=Outcome(), writes={}, read_count=0)

    def _done(self, task: Task, execution: ExecutionResult) -> None:
        self.log.append((self.heap.now_us, "done", task.number))


def task(number: int, work: TaskKind = TaskKind.EXECUTE) -> Task:
    return Task(number, work, request(number))


def test_tasks_wait_in_line_for_the_only_core() -> None:
    bench = Bench(cores=1)
    bench.submit(1, 2)
    bench.heap.run()
    assert bench.log == [(0, "start", 1), (10, "done", 1), (10, "start", 2), (20, "done", 2)]
    assert bench.cpu.busy_us == 20
    assert bench.cpu.is_idle()


def test_as_many_tasks_run_at_once_as_there_are_cores() -> None:
    bench = Bench(cores=2)
    bench.submit(1, 2, 3)
    assert not bench.cpu.is_idle()
    bench.heap.run()
    assert [entry for entry in bench.log if entry[1] == "start"] == [
        (0, "start", 1),
        (0, "start", 2),
        (10, "start", 3),
    ]


def test_a_crash_forgets_what_runs_and_what_waits() -> None:
    bench = Bench(cores=1)
    bench.submit(1, 2)
    bench.heap.schedule_at(5, bench.cpu.reset)
    bench.heap.schedule_at(6, bench.submit, 3)
    bench.heap.run()
    assert bench.log == [(0, "start", 1), (6, "start", 3), (16, "done", 3)]


def test_a_slow_core_takes_longer_for_tasks_that_start_from_then_on() -> None:
    bench = Bench(cores=1)
    bench.submit(1, 2)
    bench.cpu.slowdown_factor = 3.0
    bench.heap.run()
    assert bench.heap.now_us == 10 + 30


def test_the_default_cost_charges_what_is_touched_and_for_a_rollback_what_is_written() -> None:
    model = CpuModel(execution_us=50, access_us=5, rollback_us=2)
    execution = ExecutionResult(
        outcome=Outcome(), writes={"a": 1, "b": 2}, read_count=3, scan_count=4, blind_adds={"c": 1}
    )
    assert model.cost(task(1), execution) == 50 + 5 * (3 + 4 + 2 + 1)
    assert model.cost(task(1, TaskKind.ROLLBACK), execution) == 2 + 5 * (2 + 1)


def test_a_scale_makes_everything_take_longer() -> None:
    model = CpuModel(execution_us=50.4, access_us=5, rollback_us=2, scale=5)
    execution = ExecutionResult(outcome=Outcome(), read_count=1)
    assert model.cost(task(1), execution) == 277
    assert model.cost(task(1, TaskKind.ROLLBACK), execution) == 10


@pytest.mark.parametrize("scale", [0, -1, float("nan"), float("inf")])
def test_a_scale_that_cannot_be_is_refused(scale: float) -> None:
    with pytest.raises(BadValue, match="times as long"):
        CpuModel(scale=scale)


def test_a_node_without_cores_is_refused() -> None:
    with pytest.raises(BadValue, match="at least 1"):
        CpuModel(cores=0)
