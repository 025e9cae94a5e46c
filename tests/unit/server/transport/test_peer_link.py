"""Redialling of peers, with increasing pauses."""

import asyncio
import selectors
from contextlib import closing
from typing import Any, Final, cast

from creekdb.execution.base_state import EmptyBase
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.server.runtime.task_supervisor import TaskSupervisor
from creekdb.server.transport.peer_link import PeerLink
from creekdb.server.transport.peers import PeerNetwork, PeerPorts
from creekdb.wire import messages

INPUT_WAIT_S: Final = 0.002
"""Time for input of the loopback interface to arrive, in seconds of real time."""
TOLERANCE_S: Final = 0.03
"""Resolution of the measured times: the poll of the test and rounding of timers."""
OURS = messages.PeerHello(
    messages.WIRE_VERSION, "creek", 0, (0, 1), "kv", oldest_version=messages.OLDEST_WIRE_VERSION
)
THEIRS = messages.PeerHello(
    messages.WIRE_VERSION, "creek", 1, (0, 1), "kv", oldest_version=messages.OLDEST_WIRE_VERSION
)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Event loop whose clock jumps to the next timer as soon as no input is waiting."""

    def __init__(self) -> None:
        self._selector_of_loop = selectors.DefaultSelector()
        super().__init__(cast(selectors.BaseSelector, self))
        self._now_s = 0.0

    def time(self) -> float:
        return self._now_s

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = self._selector_of_loop.select(INPUT_WAIT_S if timeout else 0)
        if not events and timeout:
            self._now_s += timeout
        return events

    def __getattr__(self, name: str) -> Any:
        """Delegate the other methods of a selector."""
        return getattr(self._selector_of_loop, name)


class ClosingPeer(asyncio.Protocol):
    """Sends a hello, and closes the connection after a while."""

    def __init__(self, lifetime_s: float, times_s: list[float]) -> None:
        self._lifetime_s = lifetime_s
        self._times_s = times_s
        """Times of all connections and closures, in turn."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        loop = asyncio.get_running_loop()
        self._times_s.append(loop.time())
        transport.write(messages.encode_frame(THEIRS))
        loop.call_later(self._lifetime_s, self._close)

    def _close(self) -> None:
        self._times_s.append(asyncio.get_running_loop().time())
        self._transport.close()


async def _redial_pauses(dials: int, lifetime_s: float) -> list[float]:
    times_s: list[float] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: ClosingPeer(lifetime_s, times_s), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    tasks = TaskSupervisor(lambda error: None)
    peers = PeerNetwork(
        OURS,
        {0: ("127.0.0.1", 1), 1: (host, port)},
        PeerPorts(
            receive=lambda message, sender: None,
            new_loader=lambda: StateLoader(EmptyBase(), with_digest=False),
            count_failure=lambda reason: None,
            spawn=tasks.spawn,
            log=lambda replica, line: None,
            on_hello=lambda hello: None,
            on_duplicate=lambda message: None,
        ),
    )
    link = PeerLink(peers, 1, (host, port))
    link.start()
    while len(times_s) < 2 * dials:
        await asyncio.sleep(0.01)
    await link.stop()
    server.close()
    await asyncio.sleep(lifetime_s)  # until the last connection is closed
    connected_s, closed_s = times_s[: 2 * dials : 2], times_s[1 : 2 * dials : 2]
    return [later - earlier for earlier, later in zip(closed_s, connected_s[1:], strict=False)]


def redial_pauses(dials: int, lifetime_s: float) -> list[float]:
    """Return the pauses between connections to a peer that closes each after `lifetime_s`."""
    with closing(VirtualTimeLoop()) as loop:
        return loop.run_until_complete(_redial_pauses(dials, lifetime_s))


def assert_pauses(pauses: list[float], expected: list[float]) -> None:
    """Assert that each pause is the expected one, times 0.5 to 1.5."""
    for pause, due in zip(pauses, expected, strict=True):
        assert 0.5 * due - TOLERANCE_S <= pause <= 1.5 * due + TOLERANCE_S


def test_a_peer_that_closes_after_its_hello_is_redialled_after_increasing_pauses() -> None:
    assert_pauses(redial_pauses(9, 0.0), [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0])


def test_a_peer_whose_connection_lasted_is_redialled_soon() -> None:
    assert_pauses(redial_pauses(9, 1.1), [0.05] * 8)


def test_a_peer_whose_connection_was_short_is_redialled_after_increasing_pauses() -> None:
    assert_pauses(redial_pauses(6, 0.9), [0.05, 0.1, 0.2, 0.4, 0.8])
