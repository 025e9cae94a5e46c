"""Watch on simulated replicas: no replica is idle while it owes a first response.

Section 3.4: a replica executes a weak operation "immediately … on the local state and issues a
response to the client without waiting for coordination with other replicas". Section 1 promises the
same for the tentative response to a strong operation, in every partition.

The watch sets no time limit: a replica first executes earlier requests and writes to its disk. As
long as it does, it is busy. A replica is idle if its cores have no task, its disk has no write in
progress, no output waits for the disk and no turn is open. An idle replica does nothing more on its
own, so a client that still waits for a response then waits for a message or a timer. Therefore each
replica is checked right before it receives a message, a tick or a client call.

If the guarantees of a scheme exclude tentative responses, there is no such promise and the watch is
off. The watch is not a checker, since a history does not record when a replica was busy.
"""

from creekdb import datatypes
from creekdb.protocol.messages import Message
from creekdb.protocol.request import Operation
from creekdb.schemes import registry
from creekdb.simulation.kernel.cluster import ReplicaFactory, Simulation
from creekdb.simulation.kernel.node import Node
from creekdb.simulation.kernel.scenario import Scenario
from tests.simulation.durability_watch import watch_durability


class IdleWithPendingResponse(Exception):
    """An idle replica had not responded to a client."""


class WatchedSimulation(Simulation):
    """Simulation that fails when a replica is idle while a client waits for it, or when it sends a
    message or response too early (`durability_watch`)."""

    def __init__(self, scenario: Scenario, make_replica: ReplicaFactory) -> None:
        super().__init__(scenario, make_replica, datatypes.SAMPLERS[scenario.datatype])
        watch_durability(self)
        self.idle_observations = 0
        """Number of checks that found a replica idle."""

    def _deliver(self, receiver: int, sender: int, data: bytes, message: Message | None) -> None:
        self._check_not_idle(self.nodes[receiver])
        super()._deliver(receiver, sender, data, message)

    def _tick(self, node: Node) -> None:
        self._check_not_idle(node)
        super()._tick(node)

    def _client_invoke(
        self, replica: int, operation: Operation, strong: bool, session: int
    ) -> None:
        self._check_not_idle(self.nodes[replica])
        super()._client_invoke(replica, operation, strong, session)

    def _check_not_idle(self, node: Node) -> None:
        if node.replica is None or not node.replica.guarantees.tentative or _is_busy(node):
            return
        self.idle_observations += 1
        log = self._recorder._current_log(node.index)
        for id, (operation, responses) in log.operations.items():
            if not responses:
                strength = "strong" if operation.strong else "weak"
                raise IdleWithPendingResponse(
                    f"replica {node.index} was idle at {self.heap.now_us / 1000:.3f} ms without a "
                    f"response to the {strength} {id} of {operation.invoked_us / 1000:.3f} ms"
                )


def build_watched_simulation(scenario: Scenario) -> WatchedSimulation:
    """Build a watched simulation, in place of `campaign.build_fuzz_simulation`."""
    scheme = registry.get_scheme(scenario.scheme)
    datatype = datatypes.get_datatype(scenario.datatype)
    settings = scenario.protocol_settings()
    return WatchedSimulation(scenario, lambda index: scheme(index, settings, datatype))


def _is_busy(node: Node) -> bool:
    has_open_turn = node._turn_timer is not None
    return (
        has_open_turn
        or not node.cpu.is_idle()
        or node.disk.durable_position != node.disk.end_position
        or node._rule.held_count > 0
    )
