"""A connection to another replica is made again, and not over and over."""

import asyncio

from creekdb.execution.base_state import EmptyBase
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.server.runtime.task_supervisor import TaskSupervisor
from creekdb.server.transport.peer_link import BACKOFF_RESET_S, PeerLink
from creekdb.server.transport.peers import PeerNetwork
from creekdb.wire import messages

OURS = messages.PeerHello(
    messages.WIRE_VERSION, "creek", 0, (0, 1), "kv", oldest_version=messages.OLDEST_WIRE_VERSION
)
THEIRS = messages.PeerHello(
    messages.WIRE_VERSION, "creek", 1, (0, 1), "kv", oldest_version=messages.OLDEST_WIRE_VERSION
)


class HangsUp(asyncio.Protocol):
    """Says hello, and no more."""

    def __init__(self, lasting_s: float) -> None:
        self._lasting_s = lasting_s

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(messages.encode_frame(THEIRS))
        asyncio.get_running_loop().call_later(self._lasting_s, transport.close)


async def dialled(within_s: float, lasting_s: float) -> int:
    """How often a peer is dialled in that time that hangs up after a while."""
    met: list[HangsUp] = []

    def meet() -> HangsUp:
        met.append(HangsUp(lasting_s))
        return met[-1]

    server = await asyncio.get_running_loop().create_server(meet, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    tasks = TaskSupervisor(lambda error: None)
    peers = PeerNetwork(
        OURS,
        {0: ("127.0.0.1", 1), 1: (host, port)},
        lambda message, sender: None,
        lambda: StateLoader(EmptyBase(), digested=False),
        lambda reason: None,
        tasks.spawn,
    )
    link = PeerLink(peers, 1, host, port, None)
    link.start()
    await asyncio.sleep(within_s)
    await link.stop()
    server.close()
    await asyncio.sleep(lasting_s)  # until the last one has hung up
    return len(met)


def test_who_says_hello_and_hangs_up_is_dialled_after_ever_longer_pauses() -> None:
    """0.05 s, 0.1, 0.2, 0.4 and 0.8 come first, each or half of it: the sixth is over by then."""
    assert 2 <= asyncio.run(dialled(0.75, 0.0)) <= 6


def test_one_whose_connection_lasted_is_dialled_again_soon() -> None:
    lasting_s = BACKOFF_RESET_S + 0.1
    assert asyncio.run(dialled(3 * lasting_s + 0.9, lasting_s)) >= 3
