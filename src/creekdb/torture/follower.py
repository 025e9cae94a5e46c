"""Readers of the change feed during a round, and the checks of what they received.

The follower reads the feed from its first change on, while faults are injected. It often leaves its
replica and resumes at another one. At the end it must have exactly the committed writes: none is
missing, none occurs twice, and together they give the state of every replica.

A stream of Spark can do the same beside it. It is often stopped and started again, and its rows
must be those of the follower.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol, TypeAlias

from creekdb.checkers import Illegal, Ok, Verdict
from creekdb.checkers.run_index import RunIndex
from creekdb.client import Change, ChangePosition, NotDone
from creekdb.errors import ChangesExpired, CreekError, PositionInFuture
from creekdb.history import History
from creekdb.protocol.values import Key, is_same_value
from creekdb.server.changes.encoding import client_call
from creekdb.torture.processes import TIMEOUT_S, ReplicaLocation, ReplicaProcesses
from creekdb.wire.json_values import to_json

CHECKER: Final = "changes"
STREAM_CHECKER: Final = "spark stream"
CHANGES_PER_CONNECTION: Final = (1, 200)
"""Range of the number of changes after which the follower continues at another replica."""
PATIENCE_S: Final = 2.0
"""Time of one search for a replica, in seconds."""
RETRY_PAUSE_S: Final = 0.1
STREAM_RUN_S: Final = (4.0, 12.0)
"""Range of the time after which a stream is stopped and started again, in seconds."""
STREAM_END_TIMEOUT_S: Final = 2 * TIMEOUT_S
"""Time for a stream to read what a quiescent cluster has, in seconds."""

WriteRow: TypeAlias = tuple[int, str, str | None]
"""Commit index, key and value of a written register, as JSON; no value if it was deleted."""


class FeedStream(Protocol):
    """Stream of the writes of a cluster that continues after each start. All methods block."""

    def start(self) -> None: ...

    def check(self) -> None:
        """Raise `CreekError` if the stream has failed."""

    def stop(self) -> None: ...

    def finish(self) -> Sequence[WriteRow]:
        """Read up to the end of the feed, stop, and return all rows. Raise `CreekError`."""


MakeFeedStream: TypeAlias = Callable[[str, Path], FeedStream]
"""Returns a stream, given the addresses of replicas and a directory."""


class StreamRunner:
    """Run of a stream during a round, with interruptions."""

    def __init__(
        self, stream: FeedStream, random: Random, run_s: tuple[float, float] = STREAM_RUN_S
    ) -> None:
        """`run_s` is the range of the time between two interruptions, in seconds."""
        self._stream = stream
        self._random = random
        self._run_s = run_s
        self._is_over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.rows: Sequence[WriteRow] = ()
        """Rows that the stream has written in the end."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def cancel(self) -> None:
        await self._end_run()
        await asyncio.to_thread(self._stream.stop)

    async def finish(self) -> None:
        """Let the stream read the remaining changes of a quiescent cluster."""
        if (task := await self._end_run()) is not None:
            task.result()
        try:
            async with asyncio.timeout(STREAM_END_TIMEOUT_S):
                self.rows = await asyncio.to_thread(self._stream.finish)
        except TimeoutError:
            raise CreekError(
                f"the stream did not reach the end of the feed within {STREAM_END_TIMEOUT_S:g} s"
            ) from None

    async def _end_run(self) -> "asyncio.Task[None] | None":
        task, self._task = self._task, None
        self._is_over.set()
        if task is not None:
            await asyncio.wait((task,))  # a thread cannot be cancelled
        return task

    async def _run(self) -> None:
        stream = self._stream
        await asyncio.to_thread(stream.start)
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._random.uniform(*self._run_s)):
                    await self._is_over.wait()
                    return
            await asyncio.to_thread(stream.check)
            await asyncio.to_thread(stream.stop)
            await asyncio.to_thread(stream.start)


class Follower:
    """Reader of the feed of a cluster whose replicas fail."""

    def __init__(
        self, processes: ReplicaProcesses, locations: Iterable[ReplicaLocation], random: Random
    ) -> None:
        """`locations` may have replicas in future."""
        self._processes = processes
        self._locations = tuple(locations)
        self._random = random
        self._position: int | ChangePosition = 1
        self._task: asyncio.Task[None] | None = None
        self.changes: list[Change] = []
        """All received changes."""
        self.feeds: dict[int, list[Change]] = {}
        """Changes that each replica keeps at the end."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._follow())

    async def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def finish(self) -> None:
        """Read the remaining changes of a quiescent cluster, and the feed of each replica."""
        await self.cancel()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while not await self._read(follow=False):
                    await asyncio.sleep(RETRY_PAUSE_S)
        except TimeoutError:
            raise CreekError(
                f"the follower of the change feed did not reach its end: it is at {self._position}"
            ) from None
        for replica in self._processes.running:
            async with self._processes.client(replica) as db:
                stream = db.changes("earliest", follow=False)
                self.feeds[replica] = [change async for change in stream]

    async def _follow(self) -> None:
        while True:
            await self._read(follow=True)
            await asyncio.sleep(RETRY_PAUSE_S * self._random.random())

    async def _read(self, follow: bool) -> bool:
        """Read changes at one replica. Return True at the end of the feed."""
        replicas = self._random.sample(self._processes.all, len(self._processes.all))
        count = self._random.randint(*CHANGES_PER_CONNECTION) if follow else 1_000_000_000
        database = self._processes.client(
            *replicas, extra_locations=self._locations, patience=PATIENCE_S
        )
        with suppress(NotDone, ChangesExpired, PositionInFuture):  # another replica may have them
            async with database, database.changes(self._position, follow=follow) as stream:
                while count:
                    change = await anext(stream, None)
                    self._position = stream.position
                    if change is None:
                        return True
                    self.changes.append(change)
                    count -= 1
        return False


def check_changes(
    changes: Sequence[Change],
    feeds: dict[int, list[Change]],
    history: History,
    final_states: dict[str, dict[Key, Any]],
) -> Verdict:
    """Check that the follower received exactly the committed writes."""
    problem = (
        _order_problem(changes)
        or _commit_problem(changes, history)
        or _state_problem(changes, final_states)
        or _feed_problem(changes, feeds)
    )
    return Ok(CHECKER) if problem is None else Illegal(CHECKER, problem)


def _order_problem(changes: Sequence[Change]) -> str | None:
    last = 0
    for change in changes:
        if change.index <= last:
            return f"the follower received change {change.index} after change {last}"
        last = change.index
    return None


def _commit_problem(changes: Sequence[Change], history: History) -> str | None:
    """Compare the changes with the committed order and with the calls of the clients."""
    run = RunIndex(history)
    for change in changes:
        index = change.index - 1
        committed = run.committed[index] if index < len(run.committed) else None
        if committed != change.id:
            return f"change {change.index} is {change.id}, but {committed} is committed there"
    followed = {change.id for change in changes}
    for record in history.operations:
        position = run.position_of(record)
        if (
            position is not None
            and record.id not in followed
            and client_call(record.operation) is not None
        ):
            name, index = record.operation.name, position + 1
            return f"{name} is committed at {index}, but the follower did not receive it"
    return None


def _state_problem(
    changes: Sequence[Change], final_states: dict[str, dict[Key, Any]]
) -> str | None:
    state: dict[Key, Any] = {}
    for change in changes:
        state.update(change.writes)
        for key in change.deleted:
            state.pop(key, None)
    for replica, final in final_states.items():
        for key in state.keys() | final.keys():
            if not is_same_value(state.get(key), final.get(key)):
                return (
                    f"the followed value of {key!r} is {state.get(key)!r}, but replica {replica} "
                    f"has {final.get(key)!r}"
                )
    return None


def _feed_problem(changes: Sequence[Change], feeds: dict[int, list[Change]]) -> str | None:
    """Compare the feeds of the replicas, apart from the fields that each has for itself."""
    for replica, feed in feeds.items():
        first = feed[0].index if feed else 1 + (changes[-1].index if changes else 0)
        expected = [change for change in changes if change.index >= first]
        if len(feed) != len(expected):
            return f"replica {replica} keeps {len(feed)} changes from {first}, not {len(expected)}"
        for change, other in zip(expected, feed, strict=True):
            if not is_same_value(_common(change), _common(other)):
                return f"change {change.index} differs at replica {replica}"
    return None


def _common(change: Change) -> tuple[Any, ...]:
    return (change.index, change.id, change.value, change.error, change.writes, change.deleted)


def check_stream(rows: Iterable[WriteRow], changes: Iterable[Change]) -> Verdict:
    """Check that a stream has exactly the writes of the followed changes."""
    expected: Counter[WriteRow] = Counter(
        (change.index, _json_text(to_json(key)), _json_text(to_json(value)))
        for change in changes
        for key, value in change.writes
    )
    expected.update(
        (change.index, _json_text(to_json(key)), None)
        for change in changes
        for key in change.deleted
    )
    found: Counter[WriteRow] = Counter(
        (
            index,
            _json_text(json.loads(key)),
            None if value is None else _json_text(json.loads(value)),
        )
        for index, key, value in rows
    )
    missing, superfluous = expected - found, found - expected
    if not missing and not superfluous:
        return Ok(STREAM_CHECKER)
    index, key, _ = min(missing or superfluous)
    state = "lacks" if missing else "repeats or falsifies"
    return Illegal(
        STREAM_CHECKER,
        f"the stream {state} the write of change {index} to {key}: {missing.total()} missing and "
        f"{superfluous.total()} superfluous rows of {expected.total()}",
    )


def _json_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
