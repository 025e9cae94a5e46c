"""Gate between checkpoints and the journal: a checkpoint waits for the changes before it.

A checkpoint lets the journal drop the records behind it. Until then, a replica that restarts
reports their changes again. So the changes must be durable before the checkpoint is written.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from creekdb.driver.checkpoint_writer import CheckpointStore
from creekdb.protocol.messages import Record
from creekdb.server.changes.feed import ChangeFeed
from creekdb.server.storage.segment_writer import CheckpointSlot

RunInThread: TypeAlias = Callable[[Callable[[], None], Callable[[], None]], None]
"""Function that runs blocking work elsewhere, and then a callback in the loop."""


def run_in_thread(work: Callable[[], None], on_done: Callable[[], None]) -> None:
    """Run blocking work in a thread, then `on_done` in the loop, also if the work failed."""

    def finish(done: "asyncio.Future[None]") -> None:
        if not done.cancelled():
            done.exception()  # a log that cannot be synced may lose changes, which makes a gap
            on_done()

    asyncio.get_running_loop().run_in_executor(None, work).add_done_callback(finish)


class CheckpointGate:
    """`CheckpointStore` that writes a checkpoint to another store after the changes before it."""

    def __init__(
        self,
        store: CheckpointStore[CheckpointSlot],
        feed: ChangeFeed,
        in_thread: RunInThread = run_in_thread,
    ) -> None:
        self._store = store
        self._feed = feed
        self._in_thread = in_thread

    def append(self, records: Sequence[Record]) -> object:
        return self._store.append(records)

    def append_checkpoint(self, chunks: Iterable[bytes]) -> object:
        return self._store.append_checkpoint(chunks)

    def reserve_checkpoint(self) -> CheckpointSlot:
        return self._store.reserve_checkpoint()

    def write_checkpoint(
        self, slot: CheckpointSlot, chunks: Iterable[bytes], on_done: Callable[[], None]
    ) -> None:
        """Write the checkpoint once all changes that the replica has reported are durable.

        The checkpoint was encoded in earlier turns, so it covers no later change.
        """
        feed = self._feed

        def write() -> None:
            self._store.write_checkpoint(slot, chunks, on_done)

        feed.notify_after(feed.received_index, lambda: self._in_thread(feed.log.sync, write))
