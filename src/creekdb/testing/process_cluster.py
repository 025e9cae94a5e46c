"""Cluster of real processes on this machine, for tests.

Each replica imports the module of the data type, as in production. The module must therefore be
importable by its name from the path of the test.
"""

import asyncio
import os
import sys
from collections.abc import Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from creekdb.client import Database, connect
from creekdb.datatypes import DATATYPES
from creekdb.errors import UsageError
from creekdb.execution.datatype import DataType
from creekdb.load.local_cluster import LocalCluster
from creekdb.protocol.values import Key
from creekdb.testing.replica_numbers import check_replica, checked_groups, no_state_error
from creekdb.torture.http_session import read_state

_Result = TypeVar("_Result")


class ProcessCluster:
    """Replicas as processes. `close` stops them; the fixture `creek_cluster` does it.

    The methods block. In a coroutine, call them by `asyncio.to_thread`.
    """

    def __init__(
        self,
        datatype: DataType | str,
        directory: Path,
        *,
        replicas: int = 3,
        keep_changes: str = "",
    ) -> None:
        """`datatype` is a data type, or its import path. The data is in `directory`. With
        `keep_changes`, such as `1h`, the replicas keep a change feed for that time."""
        name = datatype if isinstance(datatype, str) else import_path(datatype)
        self.datatype = datatype
        options = ("--keep-changes", keep_changes) if keep_changes else ()
        self._local = LocalCluster(
            directory, replicas=replicas, datatype=name, options=options, http=True
        )
        path = os.pathsep.join(filter(None, sys.path))
        self._local.environment = {**os.environ, "PYTHONPATH": path}
        self._local.start()
        try:
            self.wait_until_ready()
        except BaseException:
            self.close()
            raise

    @property
    def replicas(self) -> range:
        """Numbers of the replicas."""
        return range(len(self._local.addresses))

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses of the replicas for clients."""
        return tuple(self._local.addresses)

    def connect(self, *replicas: int, **options: Any) -> Database:
        """Return a connection to these replicas, or to all: see `creekdb.connect`."""
        for replica in replicas:
            check_replica(replica, self.replicas)
        addresses = [self.addresses[each] for each in replicas or self.replicas]
        return connect(addresses, self._client_datatype, **options)

    def partition(self, *groups: Iterable[int]) -> None:
        """Split the cluster into groups. Replicas that are not named form one more group."""
        self._local.partition(checked_groups(groups, self.replicas))

    def heal(self) -> None:
        """End the partition. Replicas that were killed stay down until `start`."""
        self._local.heal()

    def kill(self, replica: int) -> None:
        """Kill the process of a replica. Has no effect if it is down."""
        check_replica(replica, self.replicas)
        if self._local.is_running(replica):
            self._local.kill(replica)

    def start(self, replica: int) -> None:
        """Start a replica that was killed, with the data on its disk."""
        check_replica(replica, self.replicas)
        if not self._local.is_running(replica):
            self._local.start(replica)

    def wait_until_ready(self) -> None:
        """Wait until all running replicas are connected, have joined and have a leader."""
        _run(self._local.wait_until_ready())

    def state(self, replica: int = 0) -> dict[Key, Any]:
        """Return the committed registers of a replica, without effects of tentative calls."""
        check_replica(replica, self.replicas)
        if not self._local.is_running(replica):
            raise no_state_error(replica)
        return _run(read_state(self._local.http_addresses[replica]))

    def settle(self) -> None:
        """End all faults, and wait until all replicas have committed and executed all requests."""
        self.heal()
        for replica in self.replicas:
            self.start(replica)
        self.wait_until_ready()
        _run(self._local.wait_until_stable())

    def close(self) -> None:
        """Stop all replicas."""
        self._local.stop()

    @property
    def _client_datatype(self) -> DataType | str:
        return self.datatype if isinstance(self.datatype, DataType) else ""


def import_path(datatype: DataType) -> str:
    """Return the path by which another process imports the data type."""
    if DATATYPES.get(datatype.name) is datatype:
        return datatype.name
    for name in datatype.operations:
        module = getattr(datatype.function(name), "__module__", None)
        for variable, value in vars(sys.modules.get(str(module), None) or object).items():
            if value is datatype:
                return f"{module}:{variable}"
    raise UsageError(
        f"data type {datatype.name}: no module has it as a variable; pass 'package.module:variable'"
    )


def _run(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine in a thread of its own, since the test may have a running loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
