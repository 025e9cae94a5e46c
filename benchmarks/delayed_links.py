"""Links with a latency between servers on this machine: proxies on loopback, in a thread.

A proxy delivers every byte after the latency, in order, and limits no throughput.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from threading import Thread
from types import TracebackType
from typing import Any, Self

from creekdb.torture.faults.links import LinkProxy

CLOSING_S = 0.02
"""Time in which closed connections release their sockets."""


class DelayedLink(LinkProxy):
    """Link that delivers all bytes after a latency, in each direction."""

    def __init__(self, target: str, latency_s: float) -> None:
        super().__init__(target)
        self._latency_s = latency_s

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due_s, chunk = await on_the_way.get()
                await asyncio.sleep(due_s - loop.time())
                if not chunk:
                    return
                sink.write(chunk)

        delivery = asyncio.create_task(deliver())
        try:
            while True:
                chunk = await source.read(65_536)
                on_the_way.put_nowait((loop.time() + self._latency_s, chunk))
                if not chunk:
                    await delivery
                    return
        finally:
            delivery.cancel()


class DelayedLinks:
    """Delayed links to servers. As a context manager, it stops all of them at the end."""

    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._links: list[DelayedLink] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for link in self._links:
            self._run(link.stop())
        self._run(asyncio.sleep(CLOSING_S))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def open(self, target: str) -> str:
        """Open a link to the server at an address, and return the address to dial instead."""
        link = DelayedLink(target, self._latency_s)
        self._run(link.start())
        self._links.append(link)
        return link.address

    def open_between(self, members: Iterable[str]) -> dict[tuple[int, int], str]:
        """Open a link for each pair of members, and return its address by sender and receiver."""
        targets = list(members)
        return {
            (sender, receiver): self.open(target)
            for sender in range(len(targets))
            for receiver, target in enumerate(targets)
            if sender != receiver
        }

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
