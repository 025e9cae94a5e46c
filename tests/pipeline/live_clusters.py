"""Live clusters of real processes, for tests of the Spark source."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from creekdb.load.local_cluster import LocalCluster


@contextmanager
def live_cluster(
    directory: Path, *options: str, replicas: int = 3, datatype: str = "kv"
) -> Iterator[LocalCluster]:
    """Start replicas that keep their changes, and stop them at the end."""
    directory.mkdir(parents=True, exist_ok=True)
    options = ("--keep-changes", "1h", *options)
    cluster = LocalCluster(directory, replicas=replicas, datatype=datatype, options=options)
    cluster.start()
    try:
        asyncio.run(cluster.wait_until_ready())
        yield cluster
    finally:
        cluster.stop()


def servers(cluster: LocalCluster) -> str:
    """Return the value of the option `servers`."""
    return ",".join(cluster.addresses)
