"""Clusters with the data type `sql`, for clients that block."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sql_clients.threaded_cluster import ThreadedCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ThreadedCluster]:
    """Three replicas that run in another thread."""
    with ThreadedCluster(tmp_path) as running:
        yield running


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[ThreadedCluster]:
    """One replica that runs in another thread."""
    with ThreadedCluster(tmp_path, replicas=1) as running:
        yield running
