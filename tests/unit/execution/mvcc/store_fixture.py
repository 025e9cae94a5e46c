"""Version store under manual control: operations that run given steps, at given positions.

Nothing happens automatically: a rolled-back request waits until the test re-executes it.
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


def loaded_state(*registers: tuple[Key, Any]) -> StateLoader:
    """Return a loader with these registers, above an empty base."""
    loader = StateLoader(EmptyBase(), with_digest=False, with_order=True)
    loader.add(registers, ())
    return loader


STEPWISE = DataType("stepwise")


@STEPWISE.operation
def play(tx: Transaction, *steps: tuple[Any, ...]) -> tuple[Any, ...]:
    """Run the steps, each a verb with its arguments. Return the results of all reads."""
    results: list[Any] = []
    for verb, *rest in steps:
        match verb:
            case "get":
                results.append(tx.get(*rest))
            case "pick":
                results.append(tx.pick(*rest))
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
                results.append(tuple(key for key, _ in scan))
            case "prefix":
                results.append(tuple(tx.scan(rest[0])))
            case "total":
                tx.put(rest[0], sum(value for _, value in tx.scan("n")))
            case _:
                raise ValueError(verb)
    return tuple(results)


class Attempt(msgspec.Struct, frozen=True):
    """An execution that has ended and is not installed yet."""

    entry: RequestEntry
    execution: ExecutionResult


class StoreFixture:
    """Version store with entries that the test adds, executes and moves by hand."""

    def __init__(self, base: BaseState | None = None) -> None:
        self.store = VersionStore(base, recent_max=2, with_cursors=True)
        self.entries: dict[int, RequestEntry] = {}
        """Entries by their first position."""

    def add(self, at: int, *steps: tuple[Any, ...]) -> RequestEntry:
        """Add an entry without executing it."""
        operation = Operation("play", steps)
        request = Request(at, Dot(0, at), operation, strong=False)
        entry = self.entries[at] = RequestEntry(request, (at,))
        return entry

    def execute(self, at: int, *steps: tuple[Any, ...]) -> RequestEntry:
        """Add an entry, execute it, and install the result."""
        entry = self.add(at, *steps)
        assert self.finish(self.begin(entry))
        return entry

    def reexecute(self, *entries: RequestEntry) -> None:
        """Execute rolled-back entries again."""
        for entry in entries:
            assert entry.phase is ExecutionPhase.WAITING
            assert self.finish(self.begin(entry))

    def begin(self, entry: RequestEntry) -> Attempt:
        snapshot = self.store.snapshot(entry.position)
        execution = STEPWISE.run(entry.request, snapshot)
        return Attempt(entry, execution.with_read_set(snapshot))

    def finish(self, attempt: Attempt) -> bool:
        entry, execution = attempt.entry, attempt.execution
        installed = self.store.install(entry, execution.read_set, execution)
        if installed:
            entry.outcome = execution.outcome
        return installed

    def rolled_back(self) -> list[RequestEntry]:
        """Return the entries rolled back since the last call, in order."""
        return sorted(self.store.take_rolled_back(), key=lambda entry: entry.position)

    def merge(self, *entries: RequestEntry) -> MergedRun:
        return self.store.merged_runs.merge(list(entries))

    def split(self, run: MergedRun) -> None:
        """Split a merged run like a replica: its members wait for re-execution."""
        self.store.split(run)
        assert run in self.store.take_rolled_back()
        self.release(run)

    def release(self, run: MergedRun) -> None:
        for member in run.entries:
            member.phase = ExecutionPhase.WAITING
            member.merged_run = None

    def read(self, key: Key, at: Position = END) -> Any:
        """Return the value that a request at this position would read."""
        return self.store.snapshot(at).read(key)

    def response(self, entry: RequestEntry) -> Any:
        assert entry.outcome is not None
        return _result(entry.outcome)

    def scan(self, at: Position = END) -> list[Key]:
        snapshot = self.store.snapshot(at)
        return list(snapshot.keys((), (9,), False))

    def state(self) -> dict[Key, Any]:
        """Return the difference between the state after all executed requests and the base."""
        return changes(self.store.table.values().items(), self.store.table.base)

    def chain_count(self) -> int:
        return len(self.unstable_keys())

    def version_count(self) -> int:
        chain = self.store.table.chain
        return sum(len(chain(key).versions) for key in self.unstable_keys())

    def unstable_keys(self) -> set[Key]:
        """Return the registers that have versions."""
        table = self.store.table
        return {key for key in table.registers if table.has_versions(key)}

    def registers(self) -> set[Key]:
        return set(self.store.table.registers)


def _result(outcome: Outcome) -> Any:
    return outcome.value if outcome.error is None else outcome.error


__all__ = ["ABSENT", "END", "Attempt", "StoreFixture", "play"]
