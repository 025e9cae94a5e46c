"""Test kit for applications: clusters for tests, and a search for orders that break a rule.

The pytest plugin `creekdb.testing.plugin` has two fixtures, which are functions:

- `creek_simulation(shop)` returns a `SimulatedCluster`. It is deterministic, and time passes only
  when the test advances it.
- `creek_cluster(shop)` returns a `ProcessCluster` of real processes, on free ports.

`assert_converges(cluster)` ends all faults of either, and compares the replicas. `explore(shop,
calls, invariant=…)` executes calls in every order, and needs no cluster.
"""

from creekdb.testing.convergence import assert_converges as assert_converges
from creekdb.testing.order_search import InvariantBroken as InvariantBroken
from creekdb.testing.order_search import OrderSearch as OrderSearch
from creekdb.testing.order_search import explore as explore
from creekdb.testing.process_cluster import ProcessCluster as ProcessCluster
from creekdb.testing.simulated_cluster import SimulatedCall as SimulatedCall
from creekdb.testing.simulated_cluster import SimulatedClient as SimulatedClient
from creekdb.testing.simulated_cluster import SimulatedCluster as SimulatedCluster
