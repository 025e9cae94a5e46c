"""The same for programs without asyncio: calls give their answers, and wait for them.

A thread of its own keeps the connection; any number of other threads may call.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from creekdb.client.calls import Call, FinalOutcome
from creekdb.client.errors import not_connected_error
from creekdb.client.proxies import CallOptions, CallProxy, ConsistencyHints
from creekdb.protocol.ids.version_vector import Dot
from creekdb.wire.event_loop import new_loop
from creekdb.wire.messages import CallResponse

if TYPE_CHECKING:
    from creekdb.client.database import Database

_Result = TypeVar("_Result")


class BlockingDatabase(ConsistencyHints):
    """What `with connect(…) as db:` gives."""

    def __init__(self, database: "Database") -> None:
        self._database = database
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="creek", daemon=True)

    def __repr__(self) -> str:
        return repr(self._database)

    def open(self) -> None:
        self._thread.start()
        try:
            self.run_coroutine(self._database.__aenter__())
        except BaseException:
            self._stop_loop()
            raise

    def close(self) -> None:
        self.run_coroutine(self._database.__aexit__())
        self._stop_loop()

    @property
    def weak(self) -> "BlockingCallProxy":
        """Calls that are answered at once, tentatively: `db.weak.name(…)`."""
        return BlockingCallProxy(self, CallOptions(strong=False))

    @property
    def strong(self) -> "BlockingCallProxy":
        """Calls that are answered when a majority has fixed their place: `db.strong.name(…)`."""
        return BlockingCallProxy(self, CallOptions(strong=True))

    def session(self) -> "BlockingSession":
        """Others than this one need not see what it did; it sees all that it did itself."""
        return BlockingSession(self, self._database.new_session())

    def status(self) -> dict[str, Any]:
        """Of the replica that one is connected to."""
        return self.run_coroutine(self._database.status())

    @property
    def replica(self) -> int | None:
        """The one that one is connected to, or was last."""
        return self._database.replica

    def operation_names(self) -> tuple[str, ...]:
        """What can be called, by its name."""
        return self._database.operation_names()

    def call(self, how: CallOptions, name: str, /, *arguments: Any, **named: Any) -> Any:
        async def answer() -> Any:
            return await self._database.call(how, name, *arguments, **named)

        return self.run_coroutine(answer())

    def begin(
        self, how: CallOptions, name: str, /, *arguments: Any, **named: Any
    ) -> "BlockingCall":
        async def begun() -> Call:
            return self._database.call(how, name, *arguments, **named)

        return BlockingCall(self, self.run_coroutine(begun()))

    def run_coroutine(self, work: Coroutine[Any, Any, _Result]) -> _Result:
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
    """`caller.name(…)` carries out the operation and gives its answer; `caller.begin.name(…)` does
    not wait, and gives the call."""

    def __init__(self, blocking: BlockingDatabase, how: CallOptions) -> None:
        super().__init__(blocking.call, how, blocking.operation_names)
        self._database = blocking

    @property
    def begin(self) -> "CallProxy[BlockingCall]":
        """The same calls, begun and not waited for."""
        return CallProxy(self._database.begin, self._options, self._operation_names)


class BlockingSession(ConsistencyHints):
    """What `db.session()` gives: one user's calls, where one connection serves many."""

    _variable_name = "session"

    def __init__(self, blocking: BlockingDatabase, number: int) -> None:
        self._database = blocking
        self._number = number

    @property
    def weak(self) -> BlockingCallProxy:
        """As of the database, in this session."""
        return BlockingCallProxy(self._database, CallOptions(strong=False, session=self._number))

    @property
    def strong(self) -> BlockingCallProxy:
        """As of the database, in this session."""
        return BlockingCallProxy(self._database, CallOptions(strong=True, session=self._number))


class BlockingCall:
    """A call that was begun. `tentative`, `stable` and `final` wait for just that; iterated over,
    it gives all answers as they come."""

    def __init__(self, blocking: BlockingDatabase, call: Call) -> None:
        self._database = blocking
        self._call = call

    def __repr__(self) -> str:
        return repr(self._call)

    @property
    def id(self) -> Dot | None:
        """Once a replica has issued it: for calls that are to come `after` this one."""
        return self._call.id

    @property
    def tentative(self) -> Any:
        """The first answer, of whatever kind."""
        return self._database.run_coroutine(self._call.tentative)

    @property
    def stable(self) -> Any:
        """The answer that does not change any more."""
        return self._database.run_coroutine(self._call.stable)

    @property
    def final(self) -> FinalOutcome:
        """The same, with whether it is another than the first one."""
        return self._database.run_coroutine(self._call.final)

    def __iter__(self) -> Iterator[CallResponse]:
        answers = aiter(self._call)

        async def following() -> CallResponse | None:
            return await anext(answers, None)

        while (answer := self._database.run_coroutine(following())) is not None:
            yield answer
