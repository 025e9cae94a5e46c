"""Distribution of a simulation's time: the replicas, the codec, and the simulator itself.

Replicas are deterministic. So the inputs of one run are recorded and replayed to new replicas
without a simulator, which gives the replicas' time. The messages and records of the run are encoded
and decoded again, which gives the codec's time. The rest is the simulator's.
"""

import enum
from collections.abc import Iterable, Iterator
from typing import Any

from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.timing import Timed, cheapest
from creekdb.datatypes import DATATYPES, SAMPLERS
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.checkpoint.stream import (
    AssembledSnapshot,
    IncomingMessage,
)
from creekdb.protocol.effects import Effects, Task
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Message, Record, decode_message, encode
from creekdb.protocol.request import Operation
from creekdb.schemes.basic import BasicReplica
from creekdb.simulation.kernel.cluster import Simulation, SimulationRun
from creekdb.simulation.kernel.scenario import ClientModel, Scenario


class Input(enum.Enum):
    INVOKE = enum.auto()
    RECEIVE = enum.auto()
    TICK = enum.auto()
    COMPLETED = enum.auto()
    TAKE = enum.auto()


class Recording:
    """Inputs and outputs of the replicas of one run."""

    def __init__(self) -> None:
        self.inputs: list[tuple[int, Input, Any]] = []
        self.tasks: dict[tuple[int, int], ExecutionResult] = {}
        """Result of each task, by replica and task number."""
        self.sent: list[Message | Record] = []
        self.received: list[bytes] = []


class RecordingReplica:
    """Replica that records its inputs; not part of the measurement."""

    def __init__(self, replica: BasicReplica, recording: Recording) -> None:
        self.index, self.guarantees, self.view = replica.index, replica.guarantees, replica.view
        self._replica = replica
        self._recording = recording

    def _record(self, kind: Input, *arguments: Any) -> None:
        self._recording.inputs.append((self.index, kind, arguments))

    def recover(self, records: Iterable[Record]) -> None:
        raise NotImplementedError("this scenario has no crashes")

    def invoke(
        self,
        operation: Operation,
        strong: bool,
        session: int,
        now: int,
        after: tuple[Dot, ...] = (),
    ) -> Dot:
        self._record(Input.INVOKE, operation, strong, session, now)
        return self._replica.invoke(operation, strong, session, now, after)

    def receive(self, message: IncomingMessage, sender: int, now: int) -> None:
        assert not isinstance(message, AssembledSnapshot)
        self._record(Input.RECEIVE, message, sender, now)
        self._recording.received.append(encode(message))
        self._replica.receive(message, sender, now)

    def tick(self, now: int) -> None:
        self._record(Input.TICK, now)
        self._replica.tick(now)

    def wake(self, now: int) -> None:
        raise NotImplementedError("these replicas hold no proposals")

    def run(self, task: Task) -> ExecutionResult:
        execution = self._replica.run(task)
        self._recording.tasks[self.index, task.number] = execution
        return execution

    def completed(self, task: Task, execution: ExecutionResult, now: int) -> None:
        self._record(Input.COMPLETED, task.number, now)
        self._replica.completed(task, execution, now)

    def take_tasks(self) -> tuple[Task, ...]:
        return self._replica.take_tasks()

    def take_effects(self) -> Effects:
        effects = self._replica.take_effects()
        self._record(Input.TAKE)
        self._recording.sent += (*effects.persist, *(each.message for each in effects.send))
        return effects


def fault_free_scenario(simulated_us: int) -> Scenario:
    """Return the paper's environment without faults."""
    return Scenario(
        datatype="kv",
        duration_us=simulated_us,
        clients=ClientModel(rate_per_second=400, strong_share=0.3),
    )


def new_replica(scenario: Scenario, index: int) -> BasicReplica:
    return BasicReplica(index, scenario.protocol_settings(), DATATYPES[scenario.datatype])


def simulate(scenario: Scenario, recording: Recording | None = None) -> SimulationRun:
    def make_replica(index: int) -> BasicReplica | RecordingReplica:
        replica = new_replica(scenario, index)
        return replica if recording is None else RecordingReplica(replica, recording)

    return Simulation(scenario, make_replica, SAMPLERS[scenario.datatype]).run()


def replay(scenario: Scenario, recording: Recording, execute: bool) -> list[BasicReplica]:
    """Replay the inputs to new replicas. Without `execute`, tasks return their recorded results."""
    replicas = [new_replica(scenario, index) for index in range(scenario.replicas)]
    running: dict[tuple[int, int], tuple[Task, ExecutionResult]] = {}
    for index, kind, arguments in recording.inputs:
        replica = replicas[index]
        if kind is Input.RECEIVE:
            replica.receive(*arguments)
        elif kind is Input.TAKE:
            for task in replica.take_effects().tasks:
                key = (index, task.number)
                execution = replica.run(task) if execute else recording.tasks[key]
                running[key] = task, execution
        elif kind is Input.COMPLETED:
            number, now = arguments
            task, execution = running.pop((index, number))
            replica.completed(task, execution, now)
        elif kind is Input.INVOKE:
            replica.invoke(*arguments)
        else:
            replica.tick(*arguments)
    return replicas


def _encode_and_decode(recording: Recording) -> None:
    for each in recording.sent:
        encode(each)
    for data in recording.received:
        decode_message(data)


def measure(scale: Scale) -> Iterator[Result]:
    scenario = fault_free_scenario(scale.simulated_us)
    recording = Recording()
    run = simulate(scenario, recording)
    total_ns, replicas_ns, protocol_ns, codec_ns = cheapest(
        (
            lambda: Timed(1, lambda: simulate(scenario)),
            lambda: Timed(1, lambda: replay(scenario, recording, execute=True)),
            lambda: Timed(1, lambda: replay(scenario, recording, execute=False)),
            lambda: Timed(1, lambda: _encode_and_decode(recording)),
        ),
        scale.repeats,
    )
    shares = (
        (
            "simulator",
            "the simulator itself: heap, models, recorder",
            total_ns - replicas_ns - codec_ns,
        ),
        ("protocol", "the replicas, without the operations", protocol_ns),
        ("execution", "the operations", replicas_ns - protocol_ns),
        ("codec", "encoding and decoding of messages and records", codec_ns),
    )
    for name, description, elapsed_ns in shares:
        yield Result(
            what=f"simulation: share of the {name}",
            explanation=f"Share of a fault-free run of five replicas spent in {description}.",
            value=100 * elapsed_ns / total_ns,
            unit="%",
        )
    yield Result(
        what="simulation: events",
        explanation="Events that one processor simulates per second.",
        value=run.events / total_ns * 1e9,
        unit="/s",
    )
    yield Result(
        what="simulation: operations",
        explanation="Client operations that one processor simulates per second, on all five "
        "replicas.",
        value=len(run.history.operations) / total_ns * 1e9,
        unit="/s",
    )


BENCHMARK = Benchmark("simulator", 6, measure)
