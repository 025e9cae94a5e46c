"""Blocking client for programs without asyncio. A call waits for its response and returns it.

One background thread runs the connection. Any number of threads may call concurrently.
"""

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from creekdb.client.calls import Call, FinalOutcome
from creekdb.client.changes import BlockingChangeStream, ChangePosition
from creekdb.client.errors import OperationFailed, Unknown, not_connected_error
from creekdb.client.operations import OperationDirectory
from creekdb.client.proxies import (
    AnyOperation,
    CallOptions,
    CallProxy,
    ConsistencyLevels,
    Parameters,
    Result,
    Session,
    TypedOperation,
)
from creekdb.client.snapshots import SNAPSHOT_LEASE_S, BlockingSnapshot, SnapshotTicket
from creekdb.errors import CreekError, UsageError
from creekdb.protocol.ids.version_vector import Dot
from creekdb.wire.event_loop import new_loop
from creekdb.wire.messages import CallResponse

if TYPE_CHECKING:
    from creekdb.client.database import Database

_Result = TypeVar("_Result")


class BlockingDatabase(ConsistencyLevels["BlockingCallProxy"]):
    """Connection to a cluster for programs without asyncio: the result of `with connect(…) as db:`.

    `db.weak.name(…)` and `db.strong.name(…)` call operations and return their results. Any number
    of threads may share one connection. Inside a coroutine, use `async with connect(…)` instead: a
    blocking call would stop the event loop.
    """

    def __init__(self, database: "Database") -> None:
        self._database = database
        super().__init__(partial(BlockingCallProxy, self))
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="creek", daemon=True)
        # A finalizer that the garbage collector runs may make a call while its thread has the lock.
        self._lock = threading.RLock()
        self._is_closing = False

    def __repr__(self) -> str:
        return repr(self._database)

    def open(self) -> None:
        """Start the background thread and connect."""
        self._thread.start()
        atexit.register(self.close)  # a thread that runs until the interpreter ends may crash it
        try:
            self.run_coroutine(self._database.__aenter__())
        except BaseException:
            self._stop_loop(self._end_tasks())
            raise

    def close(self) -> None:
        """Disconnect and stop the background thread. Has no effect if it is stopped.

        What other threads wait for fails.
        """
        self._reject_own_thread()
        if self._thread.is_alive():
            self._stop_loop(self._disconnect())

    def session(self) -> "Session[BlockingCallProxy]":
        """Return a new session. A session sees its own calls, and need not see those of others."""
        return Session(partial(BlockingCallProxy, self), self._database.new_session())

    def status(self) -> dict[str, Any]:
        """Return the status of the connected replica."""
        return self.run_coroutine(self._database.status())

    def changes(
        self,
        start: int | str | ChangePosition = "",
        prefix: str | tuple[str | int, ...] | None = None,
        *,
        table: str = "",
        view: str = "",
        follow: bool = True,
    ) -> BlockingChangeStream:
        """Return the changes that the cluster commits, as `Database.changes` does. The iterator
        blocks until the next change."""
        make = partial(self._database.changes, start, prefix, table=table, view=view, follow=follow)
        return BlockingChangeStream(self, make)

    def snapshot(
        self,
        *,
        partitions: int = 1,
        prefix: str | tuple[str | int, ...] | None = None,
        table: str = "",
        lease: float = SNAPSHOT_LEASE_S,
        ticket: SnapshotTicket | None = None,
    ) -> BlockingSnapshot:
        """Return the committed state at one index, for `with`, as `Database.snapshot` does."""
        make = partial(
            self._database.snapshot,
            partitions=partitions,
            prefix=prefix,
            table=table,
            lease=lease,
            ticket=ticket,
        )
        return BlockingSnapshot(self, make)

    @property
    def replica(self) -> int | None:
        """Number of the connected replica, or of the last one; None before the first."""
        return self._database.replica

    @property
    def operations(self) -> OperationDirectory:
        """Operations of the cluster, from the data type or from the replica."""
        return self._database.operations

    def call(self, options: CallOptions, name: str, /, *arguments: Any, **named: Any) -> Any:
        """Call an operation and wait for its response."""

        async def await_call() -> Any:
            return await self._database.call(options, name, *arguments, **named)

        return self.run_coroutine(await_call())

    def batch(self, calls: Iterable[Sequence[Any]], *, strong: bool = False) -> Any:
        """Make several calls as one, applied all or nothing, as `Database.batch` does."""

        async def await_batch() -> Any:
            return await self._database.batch(calls, strong=strong)

        return self.run_coroutine(await_batch())

    def load(
        self,
        operation: str,
        rows: Iterable[tuple[Any, ...]],
        *,
        leading: tuple[Any, ...] = (),
        on_loaded: Callable[[int], None] = lambda count: None,
    ) -> int:
        """Execute an operation once per row, in calls of many rows, as `Database.load` does."""
        return self.run_coroutine(
            self._database.load(operation, rows, leading=leading, on_loaded=on_loaded)
        )

    def begin(
        self, options: CallOptions, name: str, /, *arguments: Any, **named: Any
    ) -> "BlockingCall[Any]":
        """Call an operation without waiting for its response."""

        async def start_call() -> Call[Any]:
            return self._database.call(options, name, *arguments, **named)

        return BlockingCall(self, self.run_coroutine(start_call()))

    def run_coroutine(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine on the background thread and return its result.

        If the coroutine raises an error of a call, the `call` of the error is a `BlockingCall`.
        """
        try:
            self._reject_own_thread()
            if not self._thread.is_alive():
                raise not_connected_error()
            with self._lock:  # a stopped loop would never run the work
                if self._is_closing:
                    raise not_connected_error()
                future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except CreekError:
            work.close()
            raise
        try:
            return future.result()
        except CancelledError:
            raise Unknown("the connection was closed before a response arrived") from None
        except OperationFailed as error:
            if isinstance(error.call, Call):
                error.call = BlockingCall(self, error.call)
            raise
        except BaseException:
            future.cancel()
            raise

    def _stop_loop(self, last_work: Coroutine[Any, Any, None]) -> None:
        """Stop the background thread after `last_work`, unless another thread does so."""
        with self._lock:
            is_first, self._is_closing = not self._is_closing, True
        if not is_first:
            last_work.close()
            self._thread.join()
            return
        atexit.unregister(self.close)
        future = asyncio.run_coroutine_threadsafe(last_work, self._loop)
        try:
            future.result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _disconnect(self) -> None:
        try:
            await self._database.close()
        finally:
            await self._end_tasks()

    async def _end_tasks(self) -> None:
        """Cancel what other threads still wait for."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _reject_own_thread(self) -> None:
        """Raise `UsageError` on the background thread, which would wait for itself for ever."""
        if threading.current_thread() is self._thread:
            raise UsageError(
                "cannot wait for a response on the thread of the connection, which receives it and "
                "runs 'on_loaded'; use another thread"
            )


class BlockingCallProxy(CallProxy[Any]):
    """Proxy that calls operations and waits for their responses.

    `proxy.name(…)` calls the operation and returns its result. `proxy.begin.name(…)` does not wait
    and returns a `BlockingCall`. `proxy("name", …)` calls an operation whose name is not a Python
    identifier or is `begin`, `after` or `within`.
    """

    def __init__(self, blocking: BlockingDatabase, options: CallOptions) -> None:
        super().__init__(blocking.call, options, blocking.operations)
        self._database = blocking

    @overload
    def __call__(
        self,
        operation: TypedOperation[Parameters, Result],
        /,
        *arguments: Parameters.args,
        **named: Parameters.kwargs,
    ) -> Result: ...

    @overload
    def __call__(self, operation: str = "", /, *arguments: Any, **named: Any) -> Any: ...

    def __call__(self, operation: AnyOperation = "", /, *arguments: Any, **named: Any) -> Any:
        return self._invoke(operation, *arguments, **named)

    @property
    def begin(self) -> "BeginProxy":
        """Proxy for the same calls without waiting: `proxy.begin.name(…)` returns the call."""
        return BeginProxy(self._database.begin, self._options, self._operations)


class BeginProxy(CallProxy["BlockingCall[Any]"]):
    """Proxy that calls operations without waiting for their responses."""

    @overload
    def __call__(
        self,
        operation: TypedOperation[Parameters, Result],
        /,
        *arguments: Parameters.args,
        **named: Parameters.kwargs,
    ) -> "BlockingCall[Result]": ...

    @overload
    def __call__(
        self, operation: str = "", /, *arguments: Any, **named: Any
    ) -> "BlockingCall[Any]": ...

    def __call__(
        self, operation: AnyOperation = "", /, *arguments: Any, **named: Any
    ) -> "BlockingCall[Any]":
        return self._invoke(operation, *arguments, **named)


class BlockingCall(Generic[Result]):
    """A call in progress. `tentative`, `stable` and `final` block until that response arrives.

    `for response in call` iterates over all responses as they arrive.
    """

    def __init__(self, blocking: BlockingDatabase, call: Call[Result]) -> None:
        self._database = blocking
        self._call = call

    def __repr__(self) -> str:
        return repr(self._call)

    @property
    def id(self) -> Dot | None:
        """Id of the call, for `after`; None until a replica has issued the call."""
        return self._call.id

    @property
    def tentative(self) -> Result:
        """Value of the first response, tentative or not."""
        return self._wait(self._call.tentative)

    @property
    def stable(self) -> Result:
        """Value of the stable response, which never changes; the final response of a weak call."""
        return self._wait(self._call.stable)

    @property
    def final(self) -> FinalOutcome[Result]:
        """Last response, and whether it differs from the first one."""
        return self._wait(self._call.final)

    def _wait(self, response: Coroutine[Any, Any, _Result]) -> _Result:
        try:
            return self._database.run_coroutine(response)
        except OperationFailed as error:
            error.call = self
            raise

    @property
    def latest(self) -> CallResponse | None:
        """Last response so far, or None. Does not block."""
        return self._call.latest

    @property
    def is_complete(self) -> bool:
        """True if no more responses will arrive. Does not block."""
        return self._call.is_complete

    def __iter__(self) -> Iterator[CallResponse]:
        responses = aiter(self._call)

        async def next_response() -> CallResponse | None:
            return await anext(responses, None)

        while (response := self._database.run_coroutine(next_response())) is not None:
            yield response
