"""A version store tried by hand: operations that do what their steps say, at the places one wants.

Nothing happens by itself: what is withdrawn stays so until the test executes it again.
"""

from typing import Any

import msgspec

from creekdb.execution.base_state import BaseState, EmptyBase, changes
from creekdb.execution.datatype import DataType
from creekdb.execution.mvcc.entry import ExecutionPhase, MergedRun, Position, RequestEntry
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.execution.mvcc.version_store import VersionStore
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import ABSENT, Transaction
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.protocol.values import Key

END = (10**9,)


def arrived(*registers: tuple[Key, Any]) -> StateLoader:
    """Above no base."""
    arrivals = StateLoader(EmptyBase(), digested=False, ordered=True)
    arrivals.add(registers, ())
    return arrivals


STEPWISE = DataType("stepwise")


@STEPWISE.operation
def play(tx: Transaction, *steps: tuple[Any, ...]) -> tuple[Any, ...]:
    """Each step is a verb and what it needs; the answers of those that ask are the answer."""
    answers: list[Any] = []
    for verb, *rest in steps:
        match verb:
            case "get":
                answers.append(tx.get(*rest))
            case "pick":
                answers.append(tx.pick(*rest))
            case "put":
                tx.put(*rest)
            case "delete":
                tx.delete(*rest)
            case "add":
                tx.add(*rest)
            case "draw":
                tx.put(rest[2], tx.pick(rest[0], rest[1]))
            case "copy":
                tx.put(rest[1], tx.get(rest[0]))
            case "shift":
                tx.add(rest[1], tx.get(rest[0], 0))
            case "put_unless":
                if tx.get(rest[0]) is None:
                    tx.put(rest[1], rest[2])
            case "scan":
                start, stop, reverse, limit = rest
                scan = tx.scan(start=start, stop=stop, reverse=reverse, limit=limit)
                answers.append(tuple(key for key, _ in scan))
            case "prefix":
                answers.append(tuple(tx.scan(rest[0])))
            case "total":
                tx.put(rest[0], sum(value for _, value in tx.scan("n")))
            case _:
                raise ValueError(verb)
    return tuple(answers)


class Attempt(msgspec.Struct, frozen=True):
    """An execution that has ended and is not installed yet."""

    entry: RequestEntry
    execution: ExecutionResult


class Shelf:
    def __init__(self, base: BaseState | None = None) -> None:
        self.store = VersionStore(base, fresh_max=2, images=True)
        self.entries: dict[int, RequestEntry] = {}
        """By the place where they were first put."""

    def put(self, at: int, *steps: tuple[Any, ...]) -> RequestEntry:
        """An entry that was not executed yet."""
        operation = Operation("play", steps)
        request = Request(at, Dot(0, at), operation, strong=False)
        entry = self.entries[at] = RequestEntry(request, (at,))
        return entry

    def do(self, at: int, *steps: tuple[Any, ...]) -> RequestEntry:
        """Put an entry, execute it, and install what that gives."""
        entry = self.put(at, *steps)
        assert self.finish(self.begin(entry))
        return entry

    def again(self, *entries: RequestEntry) -> None:
        """Execute anew what was withdrawn."""
        for entry in entries:
            assert entry.phase is ExecutionPhase.WAITING
            assert self.finish(self.begin(entry))

    def begin(self, entry: RequestEntry) -> Attempt:
        snapshot = self.store.snapshot(entry.position)
        execution = STEPWISE.run(entry.request, snapshot)
        return Attempt(entry, msgspec.structs.replace(execution, read_set=snapshot))

    def finish(self, attempt: Attempt) -> bool:
        entry, execution = attempt.entry, attempt.execution
        installed = self.store.install(entry, execution.read_set, execution)
        if installed:
            entry.outcome = execution.outcome
        return installed

    def withdrawn(self) -> list[RequestEntry]:
        """What has to be executed again since one last asked, in order."""
        return sorted(self.store.take_rolled_back(), key=lambda entry: entry.position)

    def merge(self, *entries: RequestEntry) -> MergedRun:
        return self.store.merge(list(entries))

    def take_apart(self, stretch: MergedRun) -> None:
        """As a replica does it: its members wait for their execution again."""
        self.store.split(stretch)
        assert stretch in self.store.take_rolled_back()
        self.release(stretch)

    def release(self, stretch: MergedRun) -> None:
        for member in stretch.entries:
            member.phase = ExecutionPhase.WAITING
            member.merged_run = None

    def read(self, key: Key, at: Position = END) -> Any:
        """What a request at this place would read."""
        return self.store.snapshot(at).read(key)

    def answer(self, entry: RequestEntry) -> Any:
        assert entry.outcome is not None
        return _told(entry.outcome)

    def scan(self, at: Position = END) -> list[Key]:
        snapshot = self.store.snapshot(at)
        return list(snapshot.keys((), (9,), False))

    def state(self) -> dict[Key, Any]:
        """What all that is executed made of the base."""
        return changes(self.store.values().items(), self.store._table.base)

    def chain_count(self) -> int:
        return len(self.unsettled())

    def version_count(self) -> int:
        chain = self.store._table.chain
        return sum(len(chain(key).versions) for key in self.unsettled())

    def unsettled(self) -> set[Key]:
        """The registers that have versions."""
        contents = self.store._table
        return {key for key in contents.registers if contents.has_versions(key)}

    def registers(self) -> set[Key]:
        return set(self.store._table.registers)


def _told(outcome: Outcome) -> Any:
    return outcome.value if outcome.error is None else outcome.error


__all__ = ["ABSENT", "END", "Attempt", "Shelf", "play"]
