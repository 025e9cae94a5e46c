"""Replica discovery: order of the addresses, timeouts and error messages."""

import asyncio
import errno
import socket
from functools import partial
from typing import Any, cast

import pytest

from creekdb.client import NotDone, replica_connection
from creekdb.client.replica_connection import (
    ReplicaConnection,
    ReplicaDiscovery,
    has_no_listener,
)
from creekdb.errors import UsageError
from creekdb.wire import messages

make_connection = partial(
    ReplicaConnection,
    messages.ClientHello(messages.WIRE_VERSION, "me", "", ""),
    lambda message: None,
)


@pytest.mark.parametrize(("timeout_s", "address_timeout_s"), [(9.0, 3.0), (1.5, 1.0), (0.5, 0.5)])
async def test_a_silent_replica_takes_a_share_of_the_discovery_timeout(
    timeout_s: float, address_timeout_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[tuple[int, float]] = []

    async def dial(
        address: tuple[str, int], *arguments: Any
    ) -> tuple[ReplicaConnection, messages.Welcome]:
        attempts.append((address[1], arguments[-1]))
        if address[1] == 1:
            raise TimeoutError
        return make_connection(), messages.Welcome(1, "creek", 0, "kv", ())

    monkeypatch.setattr(replica_connection, "dial", dial)
    discovery = ReplicaDiscovery([("one", 1), ("other", 2), ("third", 3)], None, timeout_s)
    await discovery.find(make_connection)
    assert attempts == [(1, address_timeout_s), (2, address_timeout_s)]


class FakeConnection:
    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("reasons", "chosen"),
    [(["", "", ""], 0), (["new", "", "new"], 1), (["new", "new", "new"], 0), (["new", None], 0)],
)
async def test_a_joining_replica_is_chosen_only_without_alternatives(
    reasons: list[str | None], chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = [FakeConnection() for _ in reasons]
    dialled: list[FakeConnection] = []

    async def dial(address: tuple[str, int], *_: Any) -> tuple[ReplicaConnection, messages.Welcome]:
        not_ready_reason = reasons[address[1]]
        if not_ready_reason is None:
            raise ConnectionRefusedError
        connection = connections[address[1]]
        dialled.append(connection)
        welcome = messages.Welcome(1, "creek", address[1], "kv", (), not_ready_reason)
        return cast(ReplicaConnection, connection), welcome

    addresses = [("host", port) for port in range(len(reasons))]
    monkeypatch.setattr(replica_connection, "dial", dial)
    _, welcome = await ReplicaDiscovery(addresses, None, 1.0).find(make_connection)
    assert welcome.replica == chosen
    assert [each for each in dialled if not each.is_closed] == [connections[chosen]]


async def discovery_error(
    timeout_s: float, errors: dict[int, Exception], monkeypatch: pytest.MonkeyPatch
) -> str:
    """Return the message of a discovery in which each port fails with its error."""

    async def dial(address: tuple[str, int], *_: Any) -> tuple[ReplicaConnection, messages.Welcome]:
        raise errors[address[1]]

    monkeypatch.setattr(replica_connection, "dial", dial)
    discovery = ReplicaDiscovery([("host", port) for port in errors], None, timeout_s)
    with pytest.raises((NotDone, UsageError)) as raised:
        await discovery.find(make_connection)
    return str(raised.value)


REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed")


async def test_the_error_lists_the_cause_for_each_address(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: dict[int, Exception] = {1: TimeoutError(), 2: REFUSED, 3: REFUSED}
    assert await discovery_error(0.1, errors, monkeypatch) == (
        "no replica can be reached, tried for 0.1 s: "
        "host:1: no response; host:2, host:3: Connection refused"
    )


async def test_a_usage_error_is_reported_with_the_errors_of_the_other_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usage_error = UsageError("host:2 is not a client port")
    assert (
        await discovery_error(9.0, {2: usage_error}, monkeypatch) == "host:2 is not a client port"
    )
    errors = {1: TimeoutError(), 2: usage_error, 3: REFUSED}
    assert await discovery_error(9.0, errors, monkeypatch) == (
        "host:2 is not a client port; host:1: no response; host:3: Connection refused"
    )


async def test_addresses_with_the_same_usage_error_are_grouped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors: dict[int, Exception] = {
        port: UsageError(f"host:{port} rejected the connection: not 'sql'") for port in (1, 2)
    }
    assert await discovery_error(9.0, errors, monkeypatch) == (
        "host:1, host:2 rejected the connection: not 'sql'"
    )


async def test_progress_lists_the_state_of_each_address(monkeypatch: pytest.MonkeyPatch) -> None:
    async def dial(address: tuple[str, int], *_: Any) -> tuple[ReplicaConnection, messages.Welcome]:
        if address[1] == 1:
            raise REFUSED
        await asyncio.sleep(60)
        raise TimeoutError

    monkeypatch.setattr(replica_connection, "dial", dial)
    discovery = ReplicaDiscovery([("host", port) for port in (1, 2, 3)], None, 9.0)
    search = asyncio.ensure_future(discovery.find(make_connection))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    progress = "host:1: Connection refused; host:2: no response yet; host:3: not tried yet"
    assert discovery.progress_text() == progress
    search.cancel()


@pytest.mark.parametrize(
    ("error", "is_certain"),
    [
        (REFUSED, True),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), True),
        (socket.gaierror(socket.EAI_AGAIN, "later"), False),
        (OSError(f"[Errno {errno.ECONNREFUSED}] one, [Errno {errno.ECONNREFUSED}] other"), True),
        (OSError(f"[Errno {errno.ECONNREFUSED}] one, [Errno {errno.EHOSTUNREACH}] other"), False),
        (TimeoutError(), False),
    ],
    ids=repr,
)
def test_only_refused_connections_and_unknown_names_prove_that_no_process_listens(
    error: Exception, is_certain: bool
) -> None:
    assert has_no_listener(error) is is_certain
