"""Redialling of peers, with increasing pauses."""

import asyncio

from creekdb.execution.base_state import EmptyBase
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.server.runtime.task_supervisor import TaskSupervisor
from creekdb.server.transport.peer_link import BACKOFF_RESET_S, PeerLink
from creekdb.server.transport.peers import PeerNetwork, PeerPorts
from creekdb.wire import messages

OURS = messages.PeerHello(
    messages.WIRE_VERSION, "creek", 0, (0, 1), "kv", oldest_version=messages.OLDEST_WIRE_VERSION
)
THEIRS = messages.PeerHello(
    messages.WIRE_VERSION, "creek", 1, (0, 1), "kv", oldest_version=messages.OLDEST_WIRE_VERSION
)


class ClosingPeer(asyncio.Protocol):
    """Sends a hello, and closes the connection after a while."""

    def __init__(self, lifetime_s: float) -> None:
        self._lifetime_s = lifetime_s

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(messages.encode_frame(THEIRS))
        asyncio.get_running_loop().call_later(self._lifetime_s, transport.close)


async def count_dials(duration_s: float, lifetime_s: float) -> int:
    """Return how often a peer is dialled that closes connections after `lifetime_s`."""
    connections: list[ClosingPeer] = []

    def accept() -> ClosingPeer:
        connections.append(ClosingPeer(lifetime_s))
        return connections[-1]

    server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
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
        ),
    )
    link = PeerLink(peers, 1, (host, port))
    link.start()
    await asyncio.sleep(duration_s)
    await link.stop()
    server.close()
    await asyncio.sleep(lifetime_s)  # until the last connection is closed
    return len(connections)


async def test_a_peer_that_closes_after_its_hello_is_redialled_after_increasing_pauses() -> None:
    """The pauses are 0.05, 0.1, 0.2, 0.4 and 0.8 s, each times 0.5 to 1.5."""
    assert 2 <= await count_dials(0.75, 0.0) <= 6


async def test_a_peer_whose_connection_lasted_is_redialled_soon() -> None:
    lifetime_s = BACKOFF_RESET_S + 0.1
    assert await count_dials(3 * lifetime_s + 0.9, lifetime_s) >= 3
