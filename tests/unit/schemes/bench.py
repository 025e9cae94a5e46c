"""A bench to try replicas on: a few of them, wired by hand, one step at a time.

Messages stay in order unless a test meddles with `network`; records are durable at once; tasks run
at once, but for replicas in `holding`. Everything that travels or is kept goes through the codec.
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


class NotAtRest(Exception):
    """The cluster did not come to rest."""


class Bench:
    def __init__(self, size: int = 3, **settings: int) -> None:
        self.settings = Settings(members=tuple(range(size)), **settings)
        self.now = 1_000_000
        self.skew_us: dict[int, int] = {}
        self.replicas: dict[int, BasicReplica] = {}
        self.journals: dict[int, list[bytes]] = {each: [] for each in range(size)}
        self.network: deque[tuple[int, int, Message]] = deque()
        self.sent: list[tuple[int, int, Message]] = []
        """Everything that was ever sent."""
        self.answers: list[Response] = []
        self.events: dict[int, list[Event]] = {each: [] for each in range(size)}
        self.cut: set[tuple[int, int]] = set()
        """Links, from and to, that lose everything."""
        self.holding: dict[int, list[Task]] = {}
        """Replicas whose tasks wait, with their tasks."""
        for index in range(size):
            self.replicas[index] = BasicReplica(index, self.settings, KV)

    def __getitem__(self, index: int) -> BasicReplica:
        return self.replicas[index]

    # --- inputs -------------------------------------------------------------------------------

    def invoke(self, index: int, name: str, *arguments: Any, strong: bool = False) -> Dot:
        self.now += 1
        operation = Operation(name, arguments)
        id = self.replicas[index].invoke(operation, strong, 0, self.local_time(index))
        self.carry_out(index)
        return id

    def receive(self, index: int, sender: int, message: Message) -> None:
        self.replicas[index].receive(message, sender, self.local_time(index))
        self.carry_out(index)

    def tick(self, times: int = 1) -> None:
        """Let time pass, with every message delivered after every beat."""
        for _ in range(times):
            self.beat()
            self.deliver()

    def beat(self) -> None:
        """One tick of every replica, and no message delivered."""
        self.now += 5_000
        for index in sorted(self.replicas):
            self.replicas[index].tick(self.local_time(index))
            self.carry_out(index)

    def deliver(self) -> None:
        """Deliver messages until there are none."""
        while self.network:
            sender, receiver, message = self.network.popleft()
            if (sender, receiver) not in self.cut and receiver in self.replicas:
                self.receive(receiver, sender, decode_message(encode(message)))

    def crash(self, index: int) -> None:
        del self.replicas[index]
        self.holding.pop(index, None)

    def restart(self, index: int) -> None:
        replica = BasicReplica(index, self.settings, KV)
        self.replicas[index] = replica
        replica.recover(self.records(index))
        self.carry_out(index)

    def isolate(self, *indices: int) -> None:
        """Cut `indices` off from all the others."""
        for one in indices:
            for other in self.settings.members:
                if other not in indices:
                    self.cut |= {(one, other), (other, one)}

    # --- effects ------------------------------------------------------------------------------

    def carry_out(self, index: int) -> None:
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
            self.answers += effects.respond
            self.events[index] += effects.events
            if index in self.holding:
                self.holding[index] += effects.tasks
                return
            if not effects.tasks:
                return
            for task in effects.tasks:
                replica.completed(task, replica.run(task), self.local_time(index))

    def run_held(self, index: int) -> None:
        """Let a replica that was held do its work."""
        for task in self.holding.pop(index, []):
            replica = self.replicas[index]
            replica.completed(task, replica.run(task), self.local_time(index))
        self.carry_out(index)

    # --- looking on ---------------------------------------------------------------------------

    def local_time(self, index: int) -> int:
        return self.now + self.skew_us.get(index, 0)

    def records(self, index: int) -> list[Record]:
        return [decode_record(each) for each in self.journals[index]]

    def answers_to(self, id: Dot) -> list[tuple[ResponseKind, Outcome]]:
        """The answers that the paper speaks of."""
        return [
            (each.kind, each.outcome)
            for each in self.answers
            if each.id == id and each.kind is not ResponseKind.FINAL
        ]

    def final(self, id: Dot) -> Response | None:
        """What the client of a weak request learned in the end."""
        return next(
            (each for each in self.answers if each.id == id and each.kind is ResponseKind.FINAL),
            None,
        )

    def at_rest(self) -> bool:
        """Is everything stable everywhere, and everyone of the same mind?"""
        replicas = list(self.replicas.values())
        return (
            all(each.is_idle() and not each.tentative_ids() for each in replicas)
            and len({each.committed_length() for each in replicas}) == 1
            and all(each.state() == replicas[0].state() for each in replicas)
        )

    def settle(self, ticks: int = 400) -> None:
        """Let time pass until the cluster is at rest."""
        for _ in range(ticks):
            if self.at_rest():
                return
            self.tick()
        raise NotAtRest(f"after {ticks} ticks")


def leading_bench(leader: int = 1, **settings: int) -> Bench:
    """Three replicas that have agreed on the leader, and have nothing to do."""
    bench = Bench(3, **settings)
    bench.isolate(*(each for each in range(3) if each < leader))
    bench.tick(60)
    bench.cut.clear()
    bench.tick(12)
    assert [bench[each].leader() for each in range(3)] == [leader] * 3
    bench.sent.clear()
    return bench
