"""Walkthrough of ARCHITECTURE.md: its drawings show the contents of the version store."""

import re
from pathlib import Path

from creekdb.datatypes import DATATYPES
from creekdb.execution.mvcc.entry import ExecutionPhase
from creekdb.execution.mvcc.version_chain import stable_part
from creekdb.protocol.effects import ResponseKind, Task
from creekdb.protocol.ids.version_vector import Dot, DotSet
from creekdb.protocol.messages import Cast, Decisions, Message
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.settings import Settings
from creekdb.schemes.creek import CreekReplica

ARCHITECTURE = Path(__file__).parents[3] / "ARCHITECTURE.md"
BANK = DATATYPES["bank"]


class Walk:
    """Replica 0 of three, with its executions and responses."""

    def __init__(self) -> None:
        self.replica = CreekReplica(0, Settings(members=(0, 1, 2)), BANK)
        self.names: dict[Dot, str] = {}
        self.executed: list[str] = []
        self.responses: list[tuple[str, ResponseKind, object]] = []

    def receive(self, message: Message, sender: int) -> None:
        self.replica.receive(message, sender, 0)
        self.work()

    def invoke(self, name: str, operation: Operation, strong: bool, now: int) -> Dot:
        id = self.replica.invoke(operation, strong, 7, now)
        self.names[id] = name
        self.work()
        return id

    def work(self) -> None:
        tasks: list[Task] = []
        while True:
            effects = self.replica.take_effects()
            tasks += effects.tasks
            self.responses += [
                (self.names[each.id], each.kind, each.outcome.value) for each in effects.respond
            ]
            if not tasks:
                return
            task = tasks.pop(0)
            self.executed.append(self.names[task.request.id])
            self.replica.completed(task, self.replica.run(task), 0)

    def draw(self) -> list[str]:
        """Return the version chains in the notation of ARCHITECTURE.md."""
        lines = []
        for account in ("ann", "bob"):
            contents, key = self.replica._execution.store.table, ("account", account)
            line = f"{account}   {stable_part(contents.registers[key])}"
            tentative = False
            for version in contents.chain(key).versions if contents.has_versions(key) else ():
                assert version.writer is not None
                assert version.writer.phase is ExecutionPhase.EXECUTED
                id = version.writer.request.id
                starts_tentative = not tentative and not self.replica._ordering.is_committed(id)
                tentative = tentative or starts_tentative
                line += f" {'·' if starts_tentative else '──'} {self.names[id]} {version.value}"
            lines.append(line)
        return lines


def documented_drawing(step: int) -> list[str]:
    """Return the drawing with that number, without its annotations."""
    text = ARCHITECTURE.read_text()
    (block,) = re.findall(rf"^\({step}\)\n((?:(?:ann|bob) .*\n)+)", text, re.MULTILINE)
    return [re.split(r"\s{4,}", line)[0] for line in block.splitlines()]


def test_version_chains_match_the_drawings_in_the_architecture() -> None:
    walk = Walk()
    walk.names[Dot(2, 1)], walk.names[Dot(2, 2)], walk.names[Dot(2, 3)] = "O1", "O2", "O3"
    opened = [
        Request(1, Dot(2, 1), BANK.call("open", "ann", 100), False),
        Request(2, Dot(2, 2), BANK.call("open", "bob", 50), False),
        Request(3, Dot(2, 3), Operation("noop"), True, DotSet([Dot(2, 1), Dot(2, 2)]).freeze()),
    ]
    walk.receive(Cast(tuple(opened)), 2)
    walk.receive(Decisions(0, ((Dot(2, 3),),)), 2)
    walk.executed.clear()

    walk.invoke("W", BANK.call("deposit", "ann", 30), False, 10)
    walk.invoke("V", BANK.call("withdraw", "bob", 5), False, 20)
    strong = walk.invoke("S", BANK.call("withdraw", "ann", 10), True, 30)
    assert walk.draw() == documented_drawing(1)
    assert walk.executed == ["W", "V", "S"]

    walk.names[Dot(1, 1)] = "L"
    late = Request(5, Dot(1, 1), BANK.call("withdraw", "ann", 80), False)
    walk.receive(Cast((late,)), 1)
    assert walk.draw() == documented_drawing(2)
    assert walk.executed == ["W", "V", "S", "L", "W", "S"]

    walk.executed.clear()
    walk.replica.receive(Decisions(1, ((strong,),)), 1, 0)
    before = walk.replica.view.committed_ids()[-3:]
    assert [walk.names[id] for id in before] == ["W", "V", "S"]
    walk.work()
    assert set(walk.executed) == {"L", "S", "W"}
    assert walk.draw() == documented_drawing(3)

    assert walk.responses == [
        ("W", ResponseKind.TENTATIVE, 130),
        ("V", ResponseKind.TENTATIVE, 45),
        ("S", ResponseKind.TENTATIVE, 120),
        ("S", ResponseKind.TENTATIVE, 40),
        ("S", ResponseKind.STABLE, 120),
        ("W", ResponseKind.FINAL, 130),
        ("V", ResponseKind.FINAL, 45),
    ]
