"""Cores: task queue, durations, and crashes."""

import pytest

from creekdb.errors import BadValue
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.effects import Task, TaskKind
from creekdb.protocol.request import Outcome
from creekdb.simulation.kernel.simulated_time import EventHeap
from creekdb.simulation.models.cpu import Cpu
from creekdb.simulation.models.parameters import CpuModel
from tests.unit.simulation.toy_replica import request


class CpuHarness:
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


def task(number: int, kind: TaskKind = TaskKind.EXECUTE) -> Task:
    return Task(number, kind, request(number))


def test_tasks_queue_for_a_single_core() -> None:
    harness = CpuHarness(cores=1)
    harness.submit(1, 2)
    harness.heap.run()
    assert harness.log == [(0, "start", 1), (10, "done", 1), (10, "start", 2), (20, "done", 2)]
    assert harness.cpu.busy_us == 20
    assert harness.cpu.is_idle()


def test_one_task_runs_per_core() -> None:
    harness = CpuHarness(cores=2)
    harness.submit(1, 2, 3)
    assert not harness.cpu.is_idle()
    harness.heap.run()
    assert [entry for entry in harness.log if entry[1] == "start"] == [
        (0, "start", 1),
        (0, "start", 2),
        (10, "start", 3),
    ]


def test_a_crash_drops_running_and_queued_tasks() -> None:
    harness = CpuHarness(cores=1)
    harness.submit(1, 2)
    harness.heap.schedule_at(5, harness.cpu.reset)
    harness.heap.schedule_at(6, harness.submit, 3)
    harness.heap.run()
    assert harness.log == [(0, "start", 1), (6, "start", 3), (16, "done", 3)]


def test_a_slowdown_applies_to_tasks_that_start_later() -> None:
    harness = CpuHarness(cores=1)
    harness.submit(1, 2)
    harness.cpu.slowdown_factor = 3.0
    harness.heap.run()
    assert harness.heap.now_us == 10 + 30


def test_a_rollback_occupies_its_core_like_an_execution() -> None:
    harness = CpuHarness(cores=1)
    harness.cpu.submit(task(1, TaskKind.ROLLBACK))
    harness.submit(2)
    harness.heap.run()
    assert harness.log == [(0, "start", 1), (10, "done", 1), (10, "start", 2), (20, "done", 2)]
    assert harness.cpu.busy_us == 20
    assert (harness.cpu.executions, harness.cpu.rollbacks) == (1, 1)


def test_executions_cost_all_accesses_and_rollbacks_only_writes() -> None:
    model = CpuModel(execution_us=50, access_us=5, rollback_us=2)
    execution = ExecutionResult(
        outcome=Outcome(), writes={"a": 1, "b": 2}, read_count=3, scan_count=4, blind_adds={"c": 1}
    )
    assert model.cost(task(1), execution) == 50 + 5 * (3 + 4 + 2 + 1)
    assert model.cost(task(1, TaskKind.ROLLBACK), execution) == 2 + 5 * (2 + 1)


def test_the_scale_multiplies_all_costs() -> None:
    model = CpuModel(execution_us=50.4, access_us=5, rollback_us=2, scale=5)
    execution = ExecutionResult(outcome=Outcome(), read_count=1)
    assert model.cost(task(1), execution) == 277
    assert model.cost(task(1, TaskKind.ROLLBACK), execution) == 10


@pytest.mark.parametrize("scale", [0, -1, float("nan"), float("inf")])
def test_invalid_scales_are_rejected(scale: float) -> None:
    with pytest.raises(BadValue, match="scale is"):
        CpuModel(scale=scale)


def test_a_node_without_cores_is_rejected() -> None:
    with pytest.raises(BadValue, match="at least 1"):
        CpuModel(cores=0)
