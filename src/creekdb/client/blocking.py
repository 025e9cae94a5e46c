"""Blocking client for programs without asyncio. A call waits for its response and returns it.

One background thread runs the connection. Any number of threads may call concurrently.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from creekdb.client.calls import Call, FinalOutcome
from creekdb.client.changes import BlockingChangeStream, ChangePosition
from creekdb.client.errors import not_connected_error
from creekdb.client.proxies import CallOptions, CallProxy, ConsistencyLevels, Session
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
        super().__init__(partial(BlockingCallProxy, self))
        self._database = database
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="creek", daemon=True)

    def __repr__(self) -> str:
        return repr(self._database)

    def open(self) -> None:
        """Start the background thread and connect."""
        self._thread.start()
        try:
            self.run_coroutine(self._database.__aenter__())
        except BaseException:
            self._stop_loop()
            raise

    def close(self) -> None:
        """Disconnect and stop the background thread."""
        self.run_coroutine(self._database.__aexit__())
        self._stop_loop()

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
        follow: bool = True,
    ) -> BlockingChangeStream:
        """Return the changes that the cluster commits, as `Database.changes` does. The iterator
        blocks until the next change."""
        make = partial(self._database.changes, start, prefix, follow=follow)
        return BlockingChangeStream(self, make)

    @property
    def replica(self) -> int | None:
        """Number of the connected replica, or of the last one; None before the first."""
        return self._database.replica

    def operation_names(self) -> tuple[str, ...]:
        """Return the names of all operations, from the data type or from the replica."""
        return self._database.operation_names()

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

    def begin(
        self, options: CallOptions, name: str, /, *arguments: Any, **named: Any
    ) -> "BlockingCall":
        """Call an operation without waiting for its response."""

        async def start_call() -> Call:
            return self._database.call(options, name, *arguments, **named)

        return BlockingCall(self, self.run_coroutine(start_call()))

    def run_coroutine(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine on the background thread and return its result."""
        if not self._thread.is_alive():
            work.close()
            raise not_connected_error()
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class BlockingCallProxy(CallProxy[Any]):
    """Proxy that calls operations and waits for their responses.

    `proxy.name(…)` calls the operation and returns its result. `proxy.begin.name(…)` does not wait
    and returns a `BlockingCall`. `proxy("name", …)` calls an operation whose name is not a Python
    identifier or is `begin`, `after` or `within`.
    """

    def __init__(self, blocking: BlockingDatabase, options: CallOptions) -> None:
        super().__init__(blocking.call, options, blocking.operation_names)
        self._database = blocking

    @property
    def begin(self) -> "CallProxy[BlockingCall]":
        """Proxy for the same calls without waiting: `proxy.begin.name(…)` returns the call."""
        return CallProxy(self._database.begin, self._options, self._operation_names)


class BlockingCall:
    """A call in progress. `tentative`, `stable` and `final` block until that response arrives.

    `for response in call` iterates over all responses as they arrive.
    """

    def __init__(self, blocking: BlockingDatabase, call: Call) -> None:
        self._database = blocking
        self._call = call

    def __repr__(self) -> str:
        return repr(self._call)

    @property
    def id(self) -> Dot | None:
        """Id of the call, for `after`; None until a replica has issued the call."""
        return self._call.id

    @property
    def tentative(self) -> Any:
        """Value of the first response, tentative or not."""
        return self._database.run_coroutine(self._call.tentative)

    @property
    def stable(self) -> Any:
        """Value of the stable response, which never changes; the final response of a weak call."""
        return self._database.run_coroutine(self._call.stable)

    @property
    def final(self) -> FinalOutcome:
        """Last response, and whether it differs from the first one."""
        return self._database.run_coroutine(self._call.final)

    def __iter__(self) -> Iterator[CallResponse]:
        responses = aiter(self._call)

        async def next_response() -> CallResponse | None:
            return await anext(responses, None)

        while (response := self._database.run_coroutine(next_response())) is not None:
            yield response
