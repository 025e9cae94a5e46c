"""The same for programs without asyncio: calls give their answers, and wait for them.

A thread of its own keeps the connection; any number of other threads may call.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from creekdb.client.calls import Call, Final
from creekdb.client.errors import not_connected
from creekdb.client.proxies import Caller, Chooses, How
from creekdb.protocol.ids.version_vector import Dot
from creekdb.wire.event_loop import new_loop
from creekdb.wire.messages import Answer

if TYPE_CHECKING:
    from creekdb.client.database import Database

_Given = TypeVar("_Given")


class Blocking(Chooses):
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
            self.wait_for(self._database.__aenter__())
        except BaseException:
            self._end()
            raise

    def close(self) -> None:
        self.wait_for(self._database.__aexit__())
        self._end()

    @property
    def weak(self) -> "BlockingCaller":
        """Calls that are answered at once, tentatively: `db.weak.name(…)`."""
        return BlockingCaller(self, How(strong=False))

    @property
    def strong(self) -> "BlockingCaller":
        """Calls that are answered when a majority has fixed their place: `db.strong.name(…)`."""
        return BlockingCaller(self, How(strong=True))

    def session(self) -> "BlockingSession":
        """Others than this one need not see what it did; it sees all that it did itself."""
        return BlockingSession(self, self._database.new_session())

    def status(self) -> dict[str, Any]:
        """Of the replica that one is connected to."""
        return self.wait_for(self._database.status())

    @property
    def replica(self) -> int | None:
        """The one that one is connected to, or was last."""
        return self._database.replica

    def known_operations(self) -> tuple[str, ...]:
        """What can be called, by its name."""
        return self._database.known_operations()

    def call(self, how: How, name: str, /, *arguments: Any, **named: Any) -> Any:
        async def answer() -> Any:
            return await self._database.ask(how, name, *arguments, **named)

        return self.wait_for(answer())

    def begin(self, how: How, name: str, /, *arguments: Any, **named: Any) -> "BlockingCall":
        async def begun() -> Call:
            return self._database.ask(how, name, *arguments, **named)

        return BlockingCall(self, self.wait_for(begun()))

    def wait_for(self, work: Coroutine[Any, Any, _Given]) -> _Given:
        if not self._thread.is_alive():
            work.close()
            raise not_connected()
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class BlockingCaller(Caller[Any]):
    """`caller.name(…)` carries out the operation and gives its answer; `caller.begin.name(…)` does
    not wait, and gives the call."""

    def __init__(self, blocking: Blocking, how: How) -> None:
        super().__init__(blocking.call, how, blocking.known_operations)
        self._blocking = blocking

    @property
    def begin(self) -> "Caller[BlockingCall]":
        """The same calls, begun and not waited for."""
        return Caller(self._blocking.begin, self._how, self._known)


class BlockingSession(Chooses):
    """What `db.session()` gives: one user's calls, where one connection serves many."""

    _is_called = "session"

    def __init__(self, blocking: Blocking, number: int) -> None:
        self._blocking = blocking
        self._number = number

    @property
    def weak(self) -> BlockingCaller:
        """As of the database, in this session."""
        return BlockingCaller(self._blocking, How(strong=False, session=self._number))

    @property
    def strong(self) -> BlockingCaller:
        """As of the database, in this session."""
        return BlockingCaller(self._blocking, How(strong=True, session=self._number))


class BlockingCall:
    """A call that was begun. `tentative`, `stable` and `final` wait for just that; iterated over,
    it gives all answers as they come."""

    def __init__(self, blocking: Blocking, call: Call) -> None:
        self._blocking = blocking
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
        return self._blocking.wait_for(self._call.tentative)

    @property
    def stable(self) -> Any:
        """The answer that does not change any more."""
        return self._blocking.wait_for(self._call.stable)

    @property
    def final(self) -> Final:
        """The same, with whether it is another than the first one."""
        return self._blocking.wait_for(self._call.final)

    def __iter__(self) -> Iterator[Answer]:
        answers = aiter(self._call)

        async def following() -> Answer | None:
            return await anext(answers, None)

        while (answer := self._blocking.wait_for(following())) is not None:
            yield answer
