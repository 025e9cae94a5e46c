"""Driver of a live replica: feeds inputs to it and applies its effects.

Rules, as `creekdb.protocol.effects` requires:

- Messages and responses are sent when `creekdb.driver.release` allows it: after the records before
  them are durable.
- Records that no message or response waits for are not urgent. They are synced with the next
  urgent record, or at the next tick.
- The effects of all inputs in one turn of the loop are applied together. This is equivalent to
  applying them one by one: each kind stays in order, and sends follow the records.
- An `Executor` runs the tasks, possibly in another thread. Every other user of the replica holds
  the executor's lock. When a task completes, the next one is requested at once, and the effects of
  several completions are applied together.
- Checkpoints and snapshots are encoded in turns of their own. A checkpoint is written in parallel
  to the records after it, and nothing waits for it. Exception: a checkpoint that a peer sent is
  already encoded, and everything after it waits for it as for any record.
- An exception from the replica other than `CreekError` is a bug. The replica halts.

A replica whose disk fails is silent until the disk recovers. To the other replicas this looks like
a broken network. Meanwhile it still responds to reads.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Final, NamedTuple, Protocol, TypeVar

from creekdb.driver.checkpoint_writer import CheckpointStore, CheckpointWriter
from creekdb.driver.release import ReleaseRule
from creekdb.errors import CreekError, StorageFault
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.checkpoint.stream import EncodedSnapshot, IncomingMessage, LazyCheckpoint
from creekdb.protocol.effects import DataLost, Digest, Event, Response, Send, Task
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Cast, Message, Record
from creekdb.protocol.request import Operation, Request
from creekdb.schemes.core.replica import Replica
from creekdb.server.changes.checkpoint_gate import CheckpointGate
from creekdb.server.changes.feed import ChangeFeed
from creekdb.server.observability.recorder import RecordingWriter, monotonic_us
from creekdb.server.runtime.executors import Executor
from creekdb.server.storage.segment_writer import CheckpointSlot

CAST_REQUESTS_MAX: Final = 256
"""Upper bound for the requests in one `Cast` message."""

_time_ns: Final = time.time_ns

_Result = TypeVar("_Result")


class JournalPort(CheckpointStore[CheckpointSlot], Protocol):
    """Operations of the journal that the driver uses, beside those for checkpoints."""

    durable_position: int
    fault: StorageFault | None

    def subscribe(self, on_durable: Callable[[], None]) -> None: ...

    def append(self, records: Sequence[Record], sync: bool = True) -> int: ...

    def request_sync(self) -> None: ...


class EffectListener(Protocol):
    """Receiver of the effects that concern clients."""

    def observe(self, events: tuple[Event, ...]) -> None:
        """Receive events before they become visible elsewhere."""

    def respond(self, responses: Sequence[Response]) -> None: ...


class DriverPorts(NamedTuple):
    """Outputs of a driver other than its journal and its executor."""

    send: Callable[[tuple[int, ...], Message], None]
    send_snapshot: Callable[[EncodedSnapshot], None]
    compare: Callable[[Digest], None]
    """Receives the digests of the state."""
    on_data_lost: Callable[[DataLost], None]
    """Receives the proof that the disk has lost data, and must halt the driver."""
    on_internal_error: Callable[[Exception], None]
    """Receives the exception of a bug."""


class Driver:
    """Connection of a replica to its journal, its executor, its peers and its clients."""

    def __init__(
        self,
        replica: Replica,
        journal: JournalPort,
        executor: Executor,
        ports: DriverPorts,
        respond_before_durable: bool = False,
        recorder: RecordingWriter | None = None,
        changes: ChangeFeed | None = None,
    ) -> None:
        """Connect the replica. `recorder` receives everything before it is visible elsewhere.

        `changes` receives the changes of a replica that reports them."""
        self.replica = replica
        self._journal = journal
        self._send = ports.send
        self._send_snapshot = ports.send_snapshot
        self._compare = ports.compare
        self._on_data_lost = ports.on_data_lost
        self._on_internal_error = ports.on_internal_error
        self._listener: EffectListener | None = None
        self._rule = ReleaseRule(
            replica.view.index, journal.durable_position, respond_before_durable
        )
        self._recorder = recorder
        self._changes = changes
        self._is_halted = False
        self._is_apply_scheduled = False
        self._wake_timer: asyncio.TimerHandle | None = None
        """Timer of the wake that the replica requested, or None."""
        self._loop = asyncio.get_running_loop()
        self._checkpoint_writer = CheckpointWriter(
            journal if changes is None else CheckpointGate(journal, changes),
            self._release_snapshot,
            self._loop.call_soon,
            executor.lock,
        )
        self._task_observer: Callable[[tuple[Task, ...]], None] | None = None
        self.executor = executor
        self._lock = None if isinstance(executor.lock, nullcontext) else executor.lock
        """Executor lock, or None if the replica is not shared. None is usual and saves the lock in
        every step."""
        executor.start(replica, self._completed)
        journal.subscribe(self.release)

    def subscribe(self, listener: EffectListener) -> None:
        """Pass events and responses to the listener from now on."""
        self._listener = listener

    def observe_tasks(self, observer: Callable[[tuple[Task, ...]], None] | None) -> None:
        """Pass tasks to the observer before they run. None ends the observation."""
        self._task_observer = observer

    # --- inputs -------------------------------------------------------------------------------

    def recover(self, records: Iterable[Record]) -> None:
        self._step(self.replica.recover, records)
        self.apply_effects()

    def invoke(
        self, operation: Operation, strong: bool, session: int, after: tuple[Dot, ...] = ()
    ) -> Dot:
        recorder = self._recorder
        at_us = 0 if recorder is None else monotonic_us()
        id = self._step(self.replica.invoke, operation, strong, session, wall_clock_us(), after)
        if id.event > 0:
            self._rule.record_issue()
        if recorder is not None:
            recorder.record_invocation(at_us, id, operation, strong, session)
        self._schedule_apply()
        return id

    def receive(self, message: IncomingMessage, sender: int) -> None:
        if self._journal.fault is None and not self._is_halted:
            self._step(self.replica.receive, message, sender, wall_clock_us())
            self._schedule_apply()

    def tick(self) -> None:
        if self._journal.fault is None and not self._is_halted:
            self._step(self.replica.tick, wall_clock_us())
            self._schedule_apply()

    def _wake(self) -> None:
        self._wake_timer = None
        if self._journal.fault is None and not self._is_halted:
            self._step(self.replica.wake, wall_clock_us())
            self._schedule_apply()

    def lazy_checkpoint(self) -> LazyCheckpoint:
        """Return a checkpoint whose registers are read later, under the executor's lock."""
        with self.executor.lock:
            return self.replica.view.lazy_checkpoint()

    def _completed(self, task: Task, execution: ExecutionResult) -> None:
        if self._is_halted:
            return
        if self._lock is None:
            try:  # as `_step` does, without a call: this is the most frequent input
                tasks = self._complete(task, execution)
            except CreekError:
                raise
            except Exception as error:
                self._on_internal_error(error)
                raise
        else:
            tasks = self._step(self._complete, task, execution)
        self._submit(tasks)
        if self.executor.pending_count():
            self._schedule_apply()
        else:
            self.apply_effects()

    def _complete(self, task: Task, execution: ExecutionResult) -> tuple[Task, ...]:
        self.replica.completed(task, execution, wall_clock_us())
        return self.replica.take_tasks()

    def _step(self, step: Callable[..., _Result], *arguments: object) -> _Result:
        lock = self._lock
        try:
            if lock is None:
                return step(*arguments)
            with lock:
                return step(*arguments)
        except CreekError:
            raise
        except Exception as error:
            self._on_internal_error(error)
            raise

    def halt(self) -> None:
        """Stop the replica, and send nothing any more."""
        self._is_halted = True
        if self._wake_timer is not None:
            self._wake_timer.cancel()
        self._rule.clear()
        self._checkpoint_writer.halt()
        self.executor.halt()

    @property
    def backlog(self) -> int:
        """Number of scheduled applications of effects, pending tasks and batches.

        The replica is idle if the backlog is 0.
        """
        return self._is_apply_scheduled + self.executor.pending_count() + self._rule.held_count

    @property
    def has_volatile_request(self) -> bool:
        """True if a request issued here is not durable and must not be visible before it is."""
        return self._rule.has_volatile_request

    @property
    def pending_batches(self) -> int:
        """Number of batches that wait for the disk."""
        return self._rule.held_count

    # --- effects ------------------------------------------------------------------------------

    def _schedule_apply(self) -> None:
        """Apply the effects of all inputs of this turn of the loop together."""
        if not self._is_apply_scheduled:
            self._is_apply_scheduled = True
            self._loop.call_soon(self.apply_effects)

    def apply_effects(self) -> None:
        self._is_apply_scheduled = False
        if self._is_halted:
            return
        effects, recorder = self._step(self.replica.take_effects), self._recorder
        if effects.data_lost is not None:
            self._on_data_lost(effects.data_lost)
            return
        journal, rule = self._journal, self._rule
        if effects.events:
            if recorder is not None:
                recorder.record_events(effects.events)
            if self._listener is not None:
                self._listener.observe(effects.events)
        if effects.checkpoints:
            self._checkpoint_writer.append(effects.persist, effects.checkpoints)
        elif effects.persist:
            sync = bool(effects.send or effects.respond or effects.snapshots)
            journal.append(effects.persist, sync)
        send, respond = rule.offer(effects, journal.durable_position, journal.fault is not None)
        if recorder is not None and effects.events:
            recorder.mark_position(rule.end_position)
        for digest in effects.digests:
            self._compare(digest)
        if effects.changes and self._changes is not None:
            self._changes.record(effects.changes, rule.end_position)
            self._changes.release(journal.durable_position)
        for snapshot in effects.snapshots:
            self._checkpoint_writer.add_snapshot(snapshot, rule.end_position)
        if send or respond:
            self._transmit(send, respond)
        if rule.held_count and (effects.send or effects.respond):
            journal.request_sync()
        self._submit(effects.tasks)
        if effects.wake_at is not None:
            self._schedule_wake(effects.wake_at)

    def _schedule_wake(self, wake_at: int) -> None:
        if self._wake_timer is not None:
            self._wake_timer.cancel()
        delay_us = max(0, wake_at - wall_clock_us())
        self._wake_timer = self._loop.call_later(delay_us / 1_000_000, self._wake)

    def _submit(self, tasks: tuple[Task, ...]) -> None:
        if tasks:
            if self._task_observer is not None:
                self._task_observer(tasks)
            self.executor.submit(tasks)

    def _release_snapshot(self, snapshot: EncodedSnapshot, position: int) -> None:
        if self._is_halted:
            return
        if self._rule.offer_snapshot(snapshot, position, self._journal.durable_position):
            self._send_snapshot(snapshot)
        else:
            self._journal.request_sync()

    def release_reads(self) -> None:
        """Send the pending responses of reads, which need not wait for a disk that fails."""
        if reads := self._rule.release_reads():
            self._send_responses(reads)

    def release(self) -> None:
        """Send everything whose records have become durable."""
        if self._changes is not None:
            self._changes.release(self._journal.durable_position)
        send, respond, snapshots = self._rule.release(self._journal.durable_position)
        for snapshot in snapshots:
            self._send_snapshot(snapshot)
        self._transmit(send, respond)

    def _transmit(self, send: Sequence[Send], respond: Sequence[Response]) -> None:
        if self._recorder is not None:
            self._recorder.record_durable(self._journal.durable_position)
        if respond:
            self._send_responses(respond)
        for each in merge_casts(send) if len(send) > 1 else send:
            self._send(each.to, each.message)

    def _send_responses(self, responses: Sequence[Response]) -> None:
        if self._recorder is not None:
            self._recorder.record_responses(responses)
        if self._listener is not None:
            self._listener.respond(responses)


def merge_casts(sends: Sequence[Send]) -> Iterator[Send]:
    """Yield the sends, with requests to the same replicas merged into one `Cast`."""
    casts: dict[tuple[int, ...], list[Request]] = {}
    others: list[Send] = []
    for each in sends:
        if type(each.message) is Cast:
            casts.setdefault(each.to, []).extend(each.message.requests)
        else:
            others.append(each)
    for to, requests in casts.items():
        for first in range(0, len(requests), CAST_REQUESTS_MAX):
            yield Send(to, Cast(tuple(requests[first : first + CAST_REQUESTS_MAX])))
    yield from others


def wall_clock_us() -> int:
    return _time_ns() // 1000
