"""A client's connection to a cluster: to one replica, and to another when that is gone."""

import asyncio
import ssl
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from creek.client.calls import Call
from creek.client.errors import NotDone, Unknown
from creek.cluster import wire
from creek.errors import MalformedMessage, UsageError
from creek.execution.datatype import DataType
from creek.protocol.dots import Dot

UNDER_WAY_MAX: Final = 512
"""Calls at once that are not answered: replicas remember more than that of a client, and refuse
more than that of a connection."""
PATIENCE_S: Final = 10.0
"""How long replicas are looked for before a call is given up."""
PAUSE_S: Final = 0.05
SESSION_REMEMBERED: Final = 64


class Database:
    """What `connect` gives: `db.weak.name(…)` and `db.strong.name(…)` call operations."""

    def __init__(
        self,
        addresses: Iterable[tuple[str, int]],
        *,
        datatype: str = "",
        token: str = "",
        secured: ssl.SSLContext | None = None,
        timeout: float | None = None,
        patience: float = PATIENCE_S,
    ) -> None:
        self._addresses = tuple(addresses)
        self._hello = wire.Hello(wire.WIRE_VERSION, uuid.uuid4().hex, token, datatype)
        self._secured = secured
        self._timeout = timeout
        self._patience = patience
        self._line: _Line | None = None
        self._at = 0
        self._number = 0
        self._calls: dict[int, Call] = {}
        self._issued: dict[int, list[Dot]] = {}
        """By session: what it did last, which another replica must have before it goes on there."""
        self._sessions = 0
        self._queue: deque[Call] = deque()
        """Not sent yet: there are too many under way."""
        self._unanswered: dict[int, Call] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._closing = False
        self.welcome: wire.Welcome | None = None

    # --- for people -----------------------------------------------------------------------------

    async def __aenter__(self) -> "Database":
        await self._reach()
        self._keeper = asyncio.get_running_loop().create_task(self._keep_up())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._line is not None:
            self._line.close()
        for call in self._calls.values():
            call.failed(Unknown("the connection was closed before there was an answer"))

    @property
    def weak(self) -> "Caller":
        return Caller(self, strong=False)

    @property
    def strong(self) -> "Caller":
        return Caller(self, strong=True)

    def session(self) -> "Session":
        """Others than this one need not see what it did; it sees all that it did itself."""
        self._sessions += 1
        return Session(self, self._sessions)

    async def status(self) -> dict[str, Any]:
        """Of the replica that one is connected to."""
        line = self._line or await self._reach()
        self._number += 1
        return await line.status(self._number)

    @property
    def replica(self) -> int | None:
        return None if self.welcome is None else self.welcome.replica

    # --- calls ----------------------------------------------------------------------------------

    def call(
        self,
        name: str,
        arguments: tuple[Any, ...],
        strong: bool,
        *,
        session: int = 0,
        after: Iterable[Call | Dot] = (),
        timeout: float | None = None,
    ) -> Call:
        self._number += 1
        dots = [dot for each in after if (dot := each.id if isinstance(each, Call) else each)]
        message = wire.Call(self._number, name, arguments, strong, session, tuple(dots))
        call = Call(message, self._timeout if timeout is None else timeout)
        self._calls[message.number] = call
        self._queue.append(call)
        self._send()
        return call

    def _send(self) -> None:
        """Whatever may be sent now. Numbers of calls that are not answered stay close together."""
        line, unanswered = self._line, self._unanswered
        while line is not None and self._queue:
            oldest = next(iter(unanswered), self._queue[0].message.number)
            if self._queue[0].message.number - oldest >= UNDER_WAY_MAX:
                return
            call = self._queue.popleft()
            call.sent = True
            unanswered[call.message.number] = call
            line.write(self._in_session(call.message))

    def _in_session(self, message: wire.Call) -> wire.Call:
        """Only when this replica has what the session did at others."""
        issued = self._issued.get(message.session, ())
        elsewhere = [dot for dot in issued if dot.replica != self.replica]
        if not elsewhere:
            return message
        return msgspec.structs.replace(message, after=(*message.after, *elsewhere))

    def _send_again(self) -> None:
        """At another replica."""
        for number in [each for each in self._calls if each not in self._unanswered]:
            call = self._calls[number]
            if call.sent:  # it was answered: only how it ended is not known any more
                del self._calls[number]
                call.failed(Unknown("the replica that would have told how it ended is gone"))
        self._queue.extendleft(reversed(self._unanswered.values()))
        self._unanswered.clear()
        self._send()

    def _answered(self, number: int) -> None:
        if self._unanswered.pop(number, None) is not None and self._queue:
            self._send()

    def heard(self, message: wire.ToClient) -> None:
        match message:
            case wire.Issued(number=number, id=id):
                call = self._calls.get(number)
                if call is not None:
                    call.id = id
                    if id.event > 0:
                        issued = self._issued.setdefault(call.message.session, [])
                        if issued and issued[-1].replica != id.replica:
                            issued.clear()  # this one had them all
                        issued.append(id)
                        del issued[:-SESSION_REMEMBERED]
            case wire.Answer(number=number):
                call = self._calls.get(number)
                if call is not None:
                    call.answered(message)
                    if not call.message.strong or call.is_over:
                        self._answered(number)
                    if call.is_over or (call.id is not None and call.id.event < 0):
                        del self._calls[number]
            case wire.Refused(number=number, reason=reason, message=text):
                call = self._calls.pop(number, None)
                self._answered(number)
                if call is not None:
                    call.failed(NotDone(reason, text) if message.certain else Unknown(text))
            case _:
                raise MalformedMessage(f"unexpected: {type(message).__name__}")

    # --- keeping a replica at hand ----------------------------------------------------------------

    async def _keep_up(self) -> None:
        while not self._closing:
            assert self._line is not None
            await self._line.closed
            self._line = None
            try:
                await self._reach()
            except NotDone as error:
                for call in self._calls.values():
                    call.failed(Unknown(str(error)) if call.sent else error)
                self._calls.clear()
                self._unanswered.clear()
                self._queue.clear()
                await asyncio.sleep(PAUSE_S)
            else:
                self._send_again()

    async def _reach(self) -> "_Line":
        """The next replica that answers."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience
        why = "no replica was named"
        while True:
            for _ in self._addresses:
                host, port = self._addresses[self._at % len(self._addresses)]
                self._at += 1
                try:
                    line = await self._dial(host, port)
                except (OSError, TimeoutError, MalformedMessage) as error:
                    why = f"{host}:{port}: {str(error) or type(error).__name__}"
                else:
                    self._line = line
                    return line
            if loop.time() >= until:
                raise NotDone("unreachable", f"no replica can be reached; the last was {why}")
            await asyncio.sleep(PAUSE_S)

    async def _dial(self, host: str, port: int) -> "_Line":
        loop = asyncio.get_running_loop()
        _, line = await loop.create_connection(
            lambda: _Line(self._hello, self.heard), host, port, ssl=self._secured
        )
        try:
            first = await asyncio.wait_for(line.first, self._patience)
        except BaseException:
            line.close()
            raise
        if isinstance(first, wire.Denied):
            line.close()
            raise UsageError(f"{host}:{port} refuses: {first.message}")
        assert isinstance(first, wire.Welcome)
        self.welcome = first
        return line


class Caller:
    """`caller.name(…)` calls the operation of that name."""

    def __init__(
        self,
        database: Database,
        strong: bool,
        session: int = 0,
        after: tuple[Call | Dot, ...] = (),
        timeout: float | None = None,
    ) -> None:
        self._database = database
        self._strong = strong
        self._session = session
        self._after = after
        self._timeout = timeout

    def __getattr__(self, name: str) -> Callable[..., Call]:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*arguments: Any) -> Call:
            return self._database.call(
                name,
                arguments,
                self._strong,
                session=self._session,
                after=self._after,
                timeout=self._timeout,
            )

        return call

    def after(self, *calls: Call | Dot) -> "Caller":
        """Only where these have been seen (the paper's remark on ESDS in Section 2)."""
        return Caller(
            self._database, self._strong, self._session, (*self._after, *calls), self._timeout
        )

    def within(self, timeout: float) -> "Caller":
        """Wait for an answer so many seconds, and no longer."""
        return Caller(self._database, self._strong, self._session, self._after, timeout)


class Session:
    def __init__(self, database: Database, number: int) -> None:
        self._database = database
        self._number = number

    @property
    def weak(self) -> Caller:
        return Caller(self._database, strong=False, session=self._number)

    @property
    def strong(self) -> Caller:
        return Caller(self._database, strong=True, session=self._number)


class _Line(asyncio.Protocol):
    """One connection to one replica."""

    def __init__(self, hello: wire.Hello, heard: Callable[[wire.ToClient], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self.first: asyncio.Future[wire.Welcome | wire.Denied] = self._loop.create_future()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._hello = hello
        self._heard = heard
        self._frames = wire.Frames(wire.CLIENT_FRAME_MAX)
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(wire.frame_of(self._hello))

    def connection_lost(self, exc: Exception | None) -> None:
        lost = exc or ConnectionResetError("the replica closed the connection")
        if not self.first.done():
            self.first.set_exception(lost)
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(NotDone("unreachable", str(lost)))
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        try:
            for payload in self._frames.feed(data):
                self._hear(wire.to_client(payload))
        except MalformedMessage as error:
            if not self.first.done():
                self.first.set_exception(error)
            self.close()

    def write(self, message: wire.FromClient) -> None:
        """With all else that is written in this turn."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(wire.frame_of(message))

    async def status(self, number: int) -> dict[str, Any]:
        asked: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._asked[number] = asked
        self.write(wire.StatusRequest(number))
        return await asked

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _hear(self, message: wire.ToClient) -> None:
        if not self.first.done():
            if not isinstance(message, wire.Welcome | wire.Denied):
                raise MalformedMessage("a replica says first who it is")
            self.first.set_result(message)
        elif isinstance(message, wire.Status):
            asked = self._asked.pop(message.number, None)
            if asked is not None and not asked.done():
                asked.set_result(message.status)
        else:
            self._heard(message)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(out))


def connect(
    addresses: str | Iterable[str],
    datatype: DataType | str = "",
    *,
    token: str = "",
    authority: str | None = None,
    timeout: float | None = None,
    patience: float = PATIENCE_S,
) -> Database:
    """A cluster, by the addresses (`HOST:PORT`) of one or more of its replicas, for `async with`.

    `datatype`: what one expects to find there. `authority`: a file with the certificates that are
    trusted; then the connection is encrypted. `timeout`: seconds that an answer is waited for.
    """
    texts = (addresses,) if isinstance(addresses, str) else tuple(addresses)
    name = datatype.name if isinstance(datatype, DataType) else datatype
    secured = None if authority is None else ssl.create_default_context(cafile=authority)
    return Database(
        map(wire.address_of, texts),
        datatype=name,
        token=token,
        secured=secured,
        timeout=timeout,
        patience=patience,
    )
