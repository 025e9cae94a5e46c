"""Where the time of a simulation goes: the replicas, the codec, or the simulator itself.

Replicas are deterministic. So their inputs are recorded in one run, and given once more to new
replicas without a simulator around them: that is the replicas' time. The messages and records of
the run are encoded and decoded once more: that is the codec's. The rest is the simulator's.
"""

import enum
from collections.abc import Iterable, Iterator
from typing import Any

from benchmarks.measuring import Timed, cheapest
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from creekdb.datatypes import DATATYPES, SAMPLERS
from creekdb.execution.keys import CollationKey
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.checkpoint.stream import (
    AssembledSnapshot,
    IncomingMessage,
    LazyCheckpoint,
    RegisterLoader,
)
from creekdb.protocol.effects import Effects, Task
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.messages import Message, Record, decode_message, encode
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.values import Key
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
    """What passed between the replicas of one run and the simulator."""

    def __init__(self) -> None:
        self.inputs: list[tuple[int, Input, Any]] = []
        self.tasks: dict[tuple[int, int], ExecutionResult] = {}
        """What each task, by replica and number, gave."""
        self.sent: list[Message | Record] = []
        self.received: list[bytes] = []


class Recorded:
    """A replica that writes down what it is told; it has no part in what is measured."""

    def __init__(self, replica: BasicReplica, recording: Recording) -> None:
        self.index, self.guarantees = replica.index, replica.guarantees
        self.probes, self.rejected = replica.probes, replica.rejected
        self.drift_us = replica.drift_us
        self._replica = replica
        self._recording = recording

    def _note(self, kind: Input, *what: Any) -> None:
        self._recording.inputs.append((self.index, kind, what))

    def recover(self, records: Iterable[Record]) -> None:
        raise NotImplementedError("nothing crashes in this scenario")

    def invoke(
        self,
        operation: Operation,
        strong: bool,
        session: int,
        now: int,
        after: tuple[Dot, ...] = (),
    ) -> Dot:
        self._note(Input.INVOKE, operation, strong, session, now)
        return self._replica.invoke(operation, strong, session, now, after)

    def new_state_loader(self) -> RegisterLoader:
        raise NotImplementedError("nobody is behind in this scenario")

    def receive(self, message: IncomingMessage, sender: int, now: int) -> None:
        assert not isinstance(message, AssembledSnapshot)
        self._note(Input.RECEIVE, message, sender, now)
        self._recording.received.append(encode(message))
        self._replica.receive(message, sender, now)

    def tick(self, now: int) -> None:
        self._note(Input.TICK, now)
        self._replica.tick(now)

    def run(self, task: Task) -> ExecutionResult:
        execution = self._replica.run(task)
        self._recording.tasks[self.index, task.number] = execution
        return execution

    def completed(self, task: Task, execution: ExecutionResult, now: int) -> None:
        self._note(Input.COMPLETED, task.number, now)
        self._replica.completed(task, execution, now)

    def queue_delay_ticks(self) -> int:
        return self._replica.queue_delay_ticks()

    def take_tasks(self) -> tuple[Task, ...]:
        return self._replica.take_tasks()

    def take_effects(self) -> Effects:
        effects = self._replica.take_effects()
        self._note(Input.TAKE)
        self._recording.sent += (*effects.persist, *(each.message for each in effects.send))
        return effects

    def can_respond_locally(self, operation: Operation, strong: bool) -> bool:
        return self._replica.can_respond_locally(operation, strong)

    def has_request(self, id: Dot) -> bool:
        return self._replica.has_request(id)

    def is_visible(self, id: Dot) -> bool:
        return self._replica.is_visible(id)

    def last_issued(self) -> Dot:
        return self._replica.last_issued()

    def has_pending_response(self, id: Dot) -> bool:
        return self._replica.has_pending_response(id)

    def committed_length(self) -> int:
        return self._replica.committed_length()

    def awaited_members(self) -> tuple[int, ...] | None:
        return None

    def configuration(self) -> Configuration:
        return self._replica.configuration()

    def can_shut_down(self) -> bool:
        return self._replica.can_shut_down()

    def leader(self) -> int | None:
        return self._replica.leader()

    def tentative_length(self) -> int:
        return self._replica.tentative_length()

    def tentative_ids(self) -> tuple[Dot, ...]:
        return self._replica.tentative_ids()

    def last_committed(self, most: int) -> tuple[Request, ...]:
        return self._replica.last_committed(most)

    def last_tentative(self, most: int) -> tuple[Request, ...]:
        return self._replica.last_tentative(most)

    def committed_ids(self) -> tuple[Dot, ...]:
        return self._replica.committed_ids()

    def readable_lengths(self) -> range:
        return self._replica.readable_lengths()

    def committed_items(
        self, length: int, start: CollationKey, stop: CollationKey
    ) -> Iterator[tuple[Key, object]]:
        return self._replica.committed_items(length, start, stop)

    def lazy_checkpoint(self) -> LazyCheckpoint:
        return self._replica.lazy_checkpoint()

    def stable_instances(self) -> dict[int, int]:
        return self._replica.stable_instances()

    def state(self) -> dict[Key, object]:
        return self._replica.state()

    def is_idle(self) -> bool:
        return self._replica.is_idle()


def typical(simulated_us: int) -> Scenario:
    """The paper's environment on a good day."""
    return Scenario(
        datatype="kv",
        duration_us=simulated_us,
        clients=ClientModel(rate_per_second=400, strong_share=0.3),
    )


def new_replica(scenario: Scenario, index: int) -> BasicReplica:
    return BasicReplica(index, scenario.protocol_settings(), DATATYPES[scenario.datatype])


def simulate(scenario: Scenario, recording: Recording | None = None) -> SimulationRun:
    def make_replica(index: int) -> BasicReplica | Recorded:
        replica = new_replica(scenario, index)
        return replica if recording is None else Recorded(replica, recording)

    return Simulation(scenario, make_replica, SAMPLERS[scenario.datatype]).run()


def replay(scenario: Scenario, recording: Recording, execute: bool) -> list[BasicReplica]:
    """Give the inputs to new replicas. Without `execute`, tasks give what they gave before."""
    replicas = [new_replica(scenario, index) for index in range(scenario.replicas)]
    running: dict[tuple[int, int], tuple[Task, ExecutionResult]] = {}
    for index, kind, what in recording.inputs:
        replica = replicas[index]
        if kind is Input.RECEIVE:
            replica.receive(*what)
        elif kind is Input.TAKE:
            for task in replica.take_effects().tasks:
                key = (index, task.number)
                execution = replica.run(task) if execute else recording.tasks[key]
                running[key] = task, execution
        elif kind is Input.COMPLETED:
            number, now = what
            task, execution = running.pop((index, number))
            replica.completed(task, execution, now)
        elif kind is Input.INVOKE:
            replica.invoke(*what)
        else:
            replica.tick(*what)
    return replicas


def _code(recording: Recording) -> None:
    for each in recording.sent:
        encode(each)
    for data in recording.received:
        decode_message(data)


def measure(scale: Scale) -> Iterator[Result]:
    scenario = typical(scale.simulated_us)
    recording = Recording()
    run = simulate(scenario, recording)
    total, replicas, protocol, codec = cheapest(
        (
            lambda: Timed(1, lambda: simulate(scenario)),
            lambda: Timed(1, lambda: replay(scenario, recording, execute=True)),
            lambda: Timed(1, lambda: replay(scenario, recording, execute=False)),
            lambda: Timed(1, lambda: _code(recording)),
        ),
        scale.repeats,
    )
    shares = (
        ("simulator", "in the simulator itself: heap, models, recorder", total - replicas - codec),
        ("protocol", "in the replicas, without the operations", protocol),
        ("execution", "in running the operations", replicas - protocol),
        ("codec", "in encoding and decoding messages and records", codec),
    )
    for name, where, spent in shares:
        yield Result(
            what=f"simulation: share of the {name}",
            explanation=f"How much of a fault-free run of five replicas is spent {where}.",
            value=100 * spent / total,
            unit="%",
        )
    yield Result(
        what="simulation: events",
        explanation="How many events one processor simulates in a second.",
        value=run.events / total * 1e9,
        unit="/s",
    )
    yield Result(
        what="simulation: operations",
        explanation="How many clients' operations one processor simulates in a second, on all "
        "five replicas.",
        value=len(run.history.operations) / total * 1e9,
        unit="/s",
    )


BENCHMARK = Benchmark("simulator", 6, measure)
