"""Connection of a client to a cluster: to one replica, and to another one if that fails.

`creekdb.client.call_router` states the rules for open calls during a change of replica.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from functools import partial
from typing import Any, Final, overload
from weakref import WeakSet

import msgspec

from creekdb.client.arguments import (
    address_list,
    call_id,
    checked_operation_name,
    checked_seconds,
)
from creekdb.client.blocking import BlockingDatabase
from creekdb.client.call_router import CallRouter
from creekdb.client.calls import Call
from creekdb.client.changes import ChangePosition, ChangeStream, check_selection, open_stream
from creekdb.client.errors import NotDone, not_connected_error
from creekdb.client.failure_detector import ReplicaFailureDetector
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
from creekdb.client.replica_connection import (
    RETRY_PAUSE_S,
    ReplicaConnection,
    ReplicaDiscovery,
    client_tls_context,
)
from creekdb.client.sinks import Sink, load_rows
from creekdb.client.snapshots import SNAPSHOT_LEASE_S, Snapshot, SnapshotTicket
from creekdb.errors import BadValue, UnknownName, UsageError
from creekdb.execution.datatype import DataType
from creekdb.execution.serializable import describe_unserializable
from creekdb.wire import messages
from creekdb.wire.addresses import parse_address
from creekdb.wire.batches import BATCH, checked_calls
from creekdb.wire.deduplication import INTERNAL_PREFIX, QUERY_OUTCOME
from creekdb.wire.reject_reason import RejectReason

CALL_TIMEOUT_S: Final = 60.0
DISCOVERY_TIMEOUT_S: Final = 10.0
RETRY_AFTER_REJECTION_S: Final = 1.0
"""Pause between two attempts while all replicas reject the client. Replicas count each attempt."""


class AsyncCallProxy(CallProxy[Call[Any]]):
    """Proxy whose calls are awaited."""

    @overload
    def __call__(
        self,
        operation: TypedOperation[Parameters, Result],
        /,
        *arguments: Parameters.args,
        **named: Parameters.kwargs,
    ) -> Call[Result]: ...

    @overload
    def __call__(self, operation: str = "", /, *arguments: Any, **named: Any) -> Call[Any]: ...

    def __call__(self, operation: AnyOperation = "", /, *arguments: Any, **named: Any) -> Call[Any]:
        return self._invoke(operation, *arguments, **named)


class Database(ConsistencyLevels[AsyncCallProxy]):
    """Connection to a cluster: the result of `connect`.

    `db.weak.name(…)` and `db.strong.name(…)` call operations. `async with` opens and closes the
    connection; `with` gives a `BlockingDatabase` instead. Without these statements, `await
    connect(…)` opens it and `await db.close()` closes it. `connect(…).open()` gives a
    `BlockingDatabase`.
    """

    def __init__(
        self,
        discovery: ReplicaDiscovery,
        datatype: DataType | str,
        token: str,
        timeout_s: float | None,
        refused_timeout_s: float | None,
    ) -> None:
        self.discovery = discovery
        self._operations = OperationDirectory(datatype if isinstance(datatype, DataType) else None)
        name = datatype.name if isinstance(datatype, DataType) else datatype
        self._hello = messages.ClientHello(messages.WIRE_VERSION, uuid.uuid4().hex, token, name)
        self._timeout_s = timeout_s
        self._refused_timeout_s = refused_timeout_s
        self._router = CallRouter(len(self.discovery.addresses), self._outcome_query)
        self._last_session = 0
        self._connection_task: asyncio.Task[None] | None = None
        self._blocking: BlockingDatabase | None = None
        self._is_open = False
        self._streams: WeakSet[ChangeStream] = WeakSet()
        self.welcome: messages.Welcome | None = None
        super().__init__(self._make_proxy)

    def __repr__(self) -> str:
        addresses = ", ".join(self.discovery.address_texts)
        if not self._is_open:
            return f"<Creek at {addresses}, not connected: use 'with' or 'async with'>"
        datatype = "" if self.welcome is None else f" of '{self.welcome.datatype}'"
        return f"<Creek at {addresses}: replica {self.replica}{datatype}>"

    # --- for applications -----------------------------------------------------------------------

    def __await__(self) -> Generator[Any, None, "Database"]:
        return self.__aenter__().__await__()

    async def close(self) -> None:
        """Disconnect. Open calls fail."""
        await self.__aexit__()

    def open(self) -> BlockingDatabase:
        """Connect without asyncio and without `with`. `close` disconnects."""
        return self.__enter__()

    async def __aenter__(self) -> "Database":
        if self._is_open:
            raise UsageError(
                "cannot open the connection: it is open already; close it first, or call "
                "connect(…) for another one"
            )
        connection = await self._connect_next(self._refused_timeout_s)
        self._is_open = True
        self._connection_task = asyncio.get_running_loop().create_task(
            self._maintain_connection(connection)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect. All but the wait for the sockets happens before a cancellation can arrive."""
        self._is_open = False
        self._router.fail_all(
            RejectReason.CLOSED, "the connection was closed before a response arrived"
        )
        streams = tuple(self._streams)
        for stream in streams:
            stream.end()
        pending: list[Awaitable[None]] = [stream.aclose() for stream in streams]
        if (connection := self._router.connection) is not None:
            connection.close()
            pending.append(connection.aclose())
        if self._connection_task is not None:
            self._connection_task.cancel()
            pending.append(self._connection_task)
        await asyncio.gather(*pending, return_exceptions=True)

    def __enter__(self) -> BlockingDatabase:
        """Connect without asyncio."""
        blocking = BlockingDatabase(self)
        blocking.open()
        self._blocking = blocking
        return blocking

    def __exit__(self, *_: object) -> None:
        if self._blocking is not None:
            self._blocking.close()

    def session(self) -> Session[AsyncCallProxy]:
        """Return a new session. A session sees its own calls, and need not see those of others."""
        return Session(self._make_proxy, self.new_session())

    def _make_proxy(self, options: CallOptions) -> AsyncCallProxy:
        return AsyncCallProxy(self.call, options, self._operations)

    async def status(self) -> dict[str, Any]:
        """Return the status of the connected replica."""
        connection = await self._wait_for_connection()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await connection.request_status(self._router.next_number())
        except TimeoutError:
            message = f"no status from the replica within {self._timeout_s:g} s"
            raise NotDone(RejectReason.DEADLINE, message) from None

    def changes(
        self,
        start: int | str | ChangePosition = "",
        prefix: str | tuple[str | int, ...] | None = None,
        *,
        table: str = "",
        view: str = "",
        follow: bool = True,
    ) -> ChangeStream:
        """Return the changes that the cluster commits, from `start` on, in commit order.

        `start` is the index of the first change, the `position` of an earlier stream, 'earliest'
        for everything that the replicas keep, or 'latest'. `prefix` selects the changes of
        registers whose keys begin with it. `table` selects those of the rows of an SQL table, and
        gives a `TableChange` with the columns of each row. With `follow`, the stream waits for
        further changes, and starts at the latest one by default. Without it, the stream ends at the
        change that is the last one now, and starts at the earliest one by default.

        With `view="tentative"`, the stream also has the changes that are not final, as the order
        of the connected replica shows them. Each is a `StagedChange`, with its `stage`.

        The stream raises `ChangesExpired`, `PositionInFuture`, `ForeignPosition` or `ChangesOff`
        (`creekdb.errors`) if it cannot start or continue.
        """
        stream = open_stream(self.discovery, self._hello, start, prefix, table, view, follow)
        self._streams.add(stream)
        return stream

    def snapshot(
        self,
        *,
        partitions: int = 1,
        prefix: str | tuple[str | int, ...] | None = None,
        table: str = "",
        lease: float = SNAPSHOT_LEASE_S,
        ticket: SnapshotTicket | None = None,
    ) -> Snapshot:
        """Return the committed state at one index, for `async with`.

        It can be read by key range, in about `partitions` ranges of similar size, and from other
        processes by its `ticket`. It ends `lease` seconds after the last read. With `ticket`, an
        open snapshot is read and not released. `prefix` or the SQL table `table` selects registers.
        """
        lease_ms = int(checked_seconds("lease", lease) * 1000)
        if ticket is None:
            check_selection(prefix, table)
        request = messages.SnapshotRequest(1, lease_ms, partitions, prefix, table)
        return Snapshot(self.discovery.copy(), self._hello, request, ticket)

    def sink(self, name: str, *, query: str = "") -> Sink:
        """Return the sink of that name, which applies numbered batches of rows exactly once.

        `query` identifies the origin of the batches. A batch of another origin raises an error.
        """
        return Sink(self, name, query)

    async def load(
        self,
        operation: str,
        rows: Iterable[tuple[Any, ...]],
        *,
        leading: tuple[Any, ...] = (),
        on_loaded: Callable[[int], None] = lambda count: None,
    ) -> int:
        """Execute an operation once per row, in weak calls of many rows. Return their number.

        `await db.load("put", [("a", 1), ("b", 2)])`. Each row has the arguments of one execution,
        after the `leading` ones. All outcomes are final at the end. A call with an unknown outcome
        is repeated, so use operations that store a value under a key, and load new keys.
        `on_loaded` receives the number of rows of each call.
        """
        return await load_rows(self, operation, rows, leading=leading, on_loaded=on_loaded)

    @property
    def replica(self) -> int | None:
        """Number of the connected replica, or of the last one; None before the first."""
        return self._router.replica

    # --- calls ----------------------------------------------------------------------------------

    def new_session(self) -> int:
        """Return the number of a new session."""
        self._last_session += 1
        return self._last_session

    @property
    def operations(self) -> OperationDirectory:
        """Operations of the cluster, from the data type or from the replica."""
        return self._operations

    def call(self, options: CallOptions, name: str, /, *arguments: Any, **named: Any) -> Call[Any]:
        """Begin a call. A call with invalid arguments fails without being sent."""
        if not self._is_open:
            raise not_connected_error()  # immediately: the caller may never await the call
        strong, session, after, timeout = options
        failure: NotDone | None = None
        try:
            if not name.startswith(INTERNAL_PREFIX):  # the replica validates internal operations
                arguments = self._operations.positional(name, arguments, named)
            elif name == BATCH:
                arguments = checked_calls(arguments, self._operations.batched_arguments)
        except UnknownName as error:
            failure = NotDone(RejectReason.UNKNOWN_OPERATION, str(error))
        except UsageError as error:
            failure = NotDone(RejectReason.BAD_ARGUMENTS, str(error))
        if failure is not None and describe_unserializable(arguments) is not None:
            arguments = ()  # no message can hold them
        message = messages.CallRequest(
            self._router.next_number(),
            name,
            arguments,
            strong,
            session,
            tuple([dot for call in after if (dot := call_id(call)).event > 0]) if after else (),
        )
        call: Call[Any] = Call(message, self._timeout_s if timeout is None else timeout)
        if failure is None:
            self._router.submit(call)
        else:
            call.fail(failure)
        return call

    def batch(self, calls: Iterable[Sequence[Any]], *, strong: bool = False) -> Call[Any]:
        """Begin several calls as one, applied all or nothing.

        Each is an operation, by name or function, and its arguments. `await db.batch([("put", "a",
        1), ("put", "b", 2)])` returns the tuple of their values. Each call reads what the calls
        before it wrote. If one raises an error, none takes effect.
        """
        batched = []
        for call in calls:
            if isinstance(call, str) or not call:
                raise BadValue(f"a call of a batch is an operation and its arguments, not {call!r}")
            name = checked_operation_name(call[0], self._operations)
            batched.append((name, tuple(call[1:])))
        return self.call(CallOptions(strong), BATCH, *batched)

    def _outcome_query(self, call: Call[Any]) -> Callable[[], Call[Any]]:
        """Return a function that queries the outcome of a call at a replica that has the call."""
        assert call.id is not None
        options = CallOptions(True, self.new_session(), (call.id,), call.timeout_s)
        return partial(self.call, options, QUERY_OUTCOME, self._hello.client, call.message.number)

    async def _wait_for_connection(self) -> ReplicaConnection:
        """Return the connection to a replica, once there is one."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.discovery.timeout_s
        while self._is_open and loop.time() < deadline:
            if self._router.connection is not None:
                return self._router.connection
            await asyncio.sleep(RETRY_PAUSE_S)
        if not self._is_open:
            raise not_connected_error()
        message = f"no replica was reachable within {self.discovery.timeout_s:g} s"
        raise NotDone(RejectReason.UNREACHABLE, message)

    # --- connection to a replica ----------------------------------------------------------------

    async def _maintain_connection(self, connection: ReplicaConnection) -> None:
        while True:
            await ReplicaFailureDetector(
                connection,
                self.discovery.timeout_s,
                self._router.has_open_calls,
                self._router.next_number,
                has_other_replicas=len(self.discovery.addresses) > 1,
            ).wait_until_lost()
            self._router.on_connection_lost()
            connection = await self._reconnect()
            self._router.resend()

    async def _reconnect(self) -> ReplicaConnection:
        while True:
            try:
                return await self._connect_next()
            except (NotDone, UsageError) as error:
                self._router.fail_all(RejectReason.UNREACHABLE, str(error))
                await asyncio.sleep(
                    RETRY_PAUSE_S if isinstance(error, NotDone) else RETRY_AFTER_REJECTION_S
                )

    async def _connect_next(self, refused_timeout_s: float | None = None) -> ReplicaConnection:
        """Connect to the next replica that accepts the client."""
        router, previous = self._router, self.welcome
        if router.release_slots():
            self._hello = msgspec.structs.replace(self._hello, client=uuid.uuid4().hex)
        connection, welcome = await self.discovery.find(
            partial(ReplicaConnection, self._hello, router.on_message), refused_timeout_s
        )
        if previous is not None and previous.cluster != welcome.cluster:
            router.clear_session_contexts()  # the cluster was restored from a backup
        router.connection, router.replica = connection, welcome.replica
        router.is_replica_joining = bool(welcome.not_ready_reason)
        self.welcome = welcome
        self._operations.update(welcome)
        return connection


def connect(
    addresses: str | Iterable[str],
    datatype: DataType | str = "",
    *,
    token: str = "",
    authority: str | None = None,
    timeout: float | None = CALL_TIMEOUT_S,
    patience: float = DISCOVERY_TIMEOUT_S,
    refused: float | None = None,
) -> Database:
    """Return a connection to a cluster, for `async with` or for `with`.

    With `async with`, calls are awaited. With `with`, calls block and return their results. The
    connection is opened on entry and closed on exit. A notebook opens it without these statements,
    by `db = await connect(…)` or by `db = connect(…).open()`, and closes it by `db.close()`.

    `addresses` are the addresses (`HOST:PORT`) of one or more replicas: a list, or a string
    separated by commas. With more than one, the client continues at another replica if its own
    fails.

    `datatype` is the expected data type. Connecting fails if the cluster replicates another one. If
    it is a `DataType` and not a name, the client validates calls before it sends them.

    `token` authenticates the client. `authority` is a file of trusted certificates; if it is set,
    the connection uses TLS.

    `timeout` is the time that a call waits for its response, in seconds; None waits for ever.

    `patience` is the time, in seconds, after which the client stops looking for a replica and its
    open calls fail. It also bounds the silence of a connected replica, unless the client detects
    the failure earlier (`creekdb.client.failure_detector`).

    `refused` shortens `patience` while connecting, in seconds, if all addresses refuse connections
    or do not resolve. None means `patience`.
    """
    texts = address_list(addresses)
    if not isinstance(getattr(datatype, "name", datatype), str):
        value = f"{type(datatype).__name__} {datatype!r}"
        raise BadValue(f"datatype must be a creekdb.DataType or its name, not {value}")
    if not texts:
        raise BadValue("no address was given; pass at least one replica as HOST:PORT")
    discovery = ReplicaDiscovery(
        [parse_address(text) for text in texts],
        client_tls_context(authority),
        checked_seconds("patience", patience),
    )
    timeout_s = None if timeout is None else checked_seconds("timeout", timeout)
    return Database(discovery, datatype, token, timeout_s, refused)
