"""Cluster with the data type `sql` that runs in a thread of its own."""

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Self

from creekdb import dbapi
from tests.cluster.in_process_cluster import InProcessCluster


class ThreadedCluster:
    """Runs while the context manager is open."""

    def __init__(self, directory: Path, replicas: int = 3) -> None:
        self._cluster = InProcessCluster(directory, replicas, datatype="sql")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._cluster.start())
        self._run(self._cluster.until_connected())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._cluster.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def addresses(self, *replicas: int) -> str:
        """Return the addresses of these replicas, or of all, separated by commas."""
        return ",".join(self._cluster.addresses(*replicas))

    def connect(self, *replicas: int, **settings: Any) -> dbapi.Connection:
        return dbapi.connect(self.addresses(*replicas), **settings)

    def isolate(self, replica: int) -> None:
        """Drop all messages from and to a replica until the end of the test."""
        for other in self._cluster.servers:
            if other != replica:
                self._call(self._cluster.drop_messages, replica, other)
                self._call(self._cluster.drop_messages, other, replica)

    def settle(self) -> None:
        """Wait until nothing is tentative."""
        self._run(self._cluster.until_quiescent())

    def stop_replica(self, replica: int) -> None:
        self._run(self._cluster.stop(replica))

    def _call(self, function: Any, *arguments: Any) -> Any:
        async def run() -> Any:
            return function(*arguments)

        return self._run(run())

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
