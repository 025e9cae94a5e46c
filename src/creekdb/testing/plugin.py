"""Pytest plugin with clusters as fixtures: `pytest_plugins = ["creekdb.testing.plugin"]`.

It is not loaded by itself. Pytest would rewrite the assertions of the whole package for a plugin
that an installed package registers.

The fixtures import Creek when a test uses them, so that other test suites start as fast as before.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

if TYPE_CHECKING:
    from creekdb.execution.datatype import DataType
    from creekdb.testing.process_cluster import ProcessCluster
    from creekdb.testing.simulated_cluster import SimulatedCluster

MakeSimulation: TypeAlias = Callable[..., "SimulatedCluster"]
MakeCluster: TypeAlias = Callable[..., "ProcessCluster"]


@pytest.fixture
def creek_simulation() -> MakeSimulation:
    """Function that returns a simulated cluster: `creek_simulation(shop, replicas=3, seed=0)`."""
    from creekdb.testing.simulated_cluster import SimulatedCluster  # noqa: PLC0415 - slow import

    return SimulatedCluster


@pytest.fixture
def creek_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeCluster]:
    """Function that returns a cluster of processes: `creek_cluster(shop, replicas=3)`.

    With `keep_changes="1h"` the cluster has a change feed. The fixture stops all its clusters
    after the test.
    """
    from creekdb.testing.process_cluster import ProcessCluster  # noqa: PLC0415 - slow import

    clusters: list[ProcessCluster] = []

    def start(
        datatype: "DataType | str",
        directory: Path | None = None,
        *,
        replicas: int = 3,
        keep_changes: str = "",
    ) -> "ProcessCluster":
        data = directory or tmp_path_factory.mktemp("creek")
        clusters.append(
            ProcessCluster(datatype, data, replicas=replicas, keep_changes=keep_changes)
        )
        return clusters[-1]

    yield start
    for cluster in clusters:
        cluster.close()
