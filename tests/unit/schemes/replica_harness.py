"""Manually stepped harness for a few basic replicas.

Messages stay in order unless a test modifies `network`. Records are durable immediately. Tasks run
immediately, except on replicas in `held_tasks`. All messages and records pass through the codec.
"""

from collections import deque
from typing import Any

from creekdb.datatypes.kv import KV
from creekdb.protocol.effects import Event, Response, ResponseKind, Task
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import (
    CheckpointRecord,
    Message,
    Record,
    decode_message,
    decode_record,
    encode,
)
from creekdb.protocol.request import Operation, Outcome
from creekdb.protocol.settings import Settings
from creekdb.schemes.basic import BasicReplica


class NotQuiescent(Exception):
    """The cluster did not become quiescent in time."""


class ReplicaHarness:
    def __init__(self, size: int = 3, **settings: int) -> None:
        self.settings = Settings(members=tuple(range(size)), **settings)
        self.now = 1_000_000
        self.skew_us: dict[int, int] = {}
        self.replicas: dict[int, BasicReplica] = {}
        self.journals: dict[int, list[bytes]] = {each: [] for each in range(size)}
        self.network: deque[tuple[int, int, Message]] = deque()
        self.sent: list[tuple[int, int, Message]] = []
        """History of all sent messages."""
        self.responses: list[Response] = []
        self.events: dict[int, list[Event]] = {each: [] for each in range(size)}
        self.cut_links: set[tuple[int, int]] = set()
        """Links (sender, receiver) that lose all messages."""
        self.held_tasks: dict[int, list[Task]] = {}
        """Replicas whose tasks are held, with these tasks."""
        for index in range(size):
            self.replicas[index] = BasicReplica(index, self.settings, KV)

    def __getitem__(self, index: int) -> BasicReplica:
        return self.replicas[index]

    # --- inputs -------------------------------------------------------------------------------

    def invoke(self, index: int, name: str, *arguments: Any, strong: bool = False) -> Dot:
        self.now += 1
        operation = Operation(name, arguments)
        id = self.replicas[index].invoke(operation, strong, 0, self.local_time(index))
        self.process_effects(index)
        return id

    def receive(self, index: int, sender: int, message: Message) -> None:
        self.replicas[index].receive(message, sender, self.local_time(index))
        self.process_effects(index)

    def tick(self, times: int = 1) -> None:
        """Tick every replica `times` times, and deliver all messages after each tick."""
        for _ in range(times):
            self.tick_without_delivery()
            self.deliver()

    def tick_without_delivery(self) -> None:
        """Tick every replica once, and deliver no message."""
        self.now += 5_000
        for index in sorted(self.replicas):
            self.replicas[index].tick(self.local_time(index))
            self.process_effects(index)

    def deliver(self) -> None:
        """Deliver messages until the network is empty."""
        while self.network:
            sender, receiver, message = self.network.popleft()
            if (sender, receiver) not in self.cut_links and receiver in self.replicas:
                self.receive(receiver, sender, decode_message(encode(message)))

    def crash(self, index: int) -> None:
        del self.replicas[index]
        self.held_tasks.pop(index, None)

    def restart(self, index: int) -> None:
        replica = BasicReplica(index, self.settings, KV)
        self.replicas[index] = replica
        replica.recover(self.records(index))
        self.process_effects(index)

    def isolate(self, *indices: int) -> None:
        """Cut all links between `indices` and the other members."""
        for one in indices:
            for other in self.settings.members:
                if other not in indices:
                    self.cut_links |= {(one, other), (other, one)}

    # --- effects ------------------------------------------------------------------------------

    def process_effects(self, index: int) -> None:
        replica = self.replicas[index]
        while True:
            effects = replica.take_effects()
            for record in effects.persist:
                if isinstance(record, CheckpointRecord):
                    self.journals[index].clear()
                self.journals[index].append(encode(record))
            for send in effects.send:
                for receiver in send.to:
                    self.network.append((index, receiver, send.message))
                    self.sent.append((index, receiver, send.message))
            self.responses += effects.respond
            self.events[index] += effects.events
            if index in self.held_tasks:
                self.held_tasks[index] += effects.tasks
                return
            if not effects.tasks:
                return
            for task in effects.tasks:
                replica.completed(task, replica.run(task), self.local_time(index))

    def run_held_tasks(self, index: int) -> None:
        """Run the held tasks of a replica, and hold no further ones."""
        for task in self.held_tasks.pop(index, []):
            replica = self.replicas[index]
            replica.completed(task, replica.run(task), self.local_time(index))
        self.process_effects(index)

    # --- inspection ---------------------------------------------------------------------------

    def local_time(self, index: int) -> int:
        return self.now + self.skew_us.get(index, 0)

    def records(self, index: int) -> list[Record]:
        return [decode_record(each) for each in self.journals[index]]

    def responses_to(self, id: Dot) -> list[tuple[ResponseKind, Outcome]]:
        """Return the responses defined by the paper, without the final one."""
        return [
            (each.kind, each.outcome)
            for each in self.responses
            if each.id == id and each.kind is not ResponseKind.FINAL
        ]

    def final_response(self, id: Dot) -> Response | None:
        """Return the final response to a weak request, or None."""
        return next(
            (each for each in self.responses if each.id == id and each.kind is ResponseKind.FINAL),
            None,
        )

    def is_quiescent(self) -> bool:
        """True if every request is stable on every replica, and all states are equal."""
        replicas = list(self.replicas.values())
        return (
            all(each.view.is_idle() and not each.view.tentative_ids() for each in replicas)
            and len({each.view.committed_length() for each in replicas}) == 1
            and all(each.view.state() == replicas[0].view.state() for each in replicas)
        )

    def run_until_quiescent(self, ticks: int = 400) -> None:
        """Tick until the cluster is quiescent."""
        for _ in range(ticks):
            if self.is_quiescent():
                return
            self.tick()
        raise NotQuiescent(f"after {ticks} ticks")


def harness_with_leader(leader: int = 1, **settings: int) -> ReplicaHarness:
    """Return three idle replicas that trust the given leader."""
    harness = ReplicaHarness(3, **settings)
    harness.isolate(*(each for each in range(3) if each < leader))
    harness.tick(60)
    harness.cut_links.clear()
    harness.tick(12)
    assert [harness[each].view.leader() for each in range(3)] == [leader] * 3
    harness.sent.clear()
    return harness
