"""A watch on simulated replicas: none has time on its hands while it owes a first answer.

Section 3.4: a replica executes a weak operation "immediately … on the local state and issues a
response to the client without waiting for coordination with other replicas". Section 1 promises as
much of the tentative answer to a strong one, in every partition.

How long that may take is not for a watch to say: a replica executes what comes before, and writes
to its disk. But as long as it does, it is at work. One whose cores have nothing to run, whose disk
has nothing to write, and that has no turn to end, does nothing more of its own accord. Whoever
waits for an answer then waits for a message, or for a timer. So each replica is looked at right
before a message, a tick or a client reaches it.

Where the terms of a run exclude tentative answers nothing of the kind is promised, and nothing is
watched. It is no checker, since histories do not tell when a replica was at work.
"""

from creekdb import datatypes
from creekdb.protocol.messages import Message
from creekdb.protocol.request import Operation
from creekdb.schemes import registry
from creekdb.simulation.kernel.cluster import ReplicaFactory, Simulation
from creekdb.simulation.kernel.node import Node
from creekdb.simulation.kernel.scenario import Scenario


class WaitedForOthers(Exception):
    """A replica had nothing to do, and had not answered somebody."""


class Watched(Simulation):
    """A simulation that ends when a replica idles while somebody waits for it."""

    def __init__(self, scenario: Scenario, make_replica: ReplicaFactory) -> None:
        super().__init__(scenario, make_replica, datatypes.SAMPLERS[scenario.datatype])
        self.looks = 0
        """At a replica with nothing to do."""

    def _deliver(self, receiver: int, sender: int, data: bytes, message: Message | None) -> None:
        self._look_at(self.nodes[receiver])
        super()._deliver(receiver, sender, data, message)

    def _tick(self, node: Node) -> None:
        self._look_at(node)
        super()._tick(node)

    def _client_invoke(
        self, replica: int, operation: Operation, strong: bool, session: int
    ) -> None:
        self._look_at(self.nodes[replica])
        super()._client_invoke(replica, operation, strong, session)

    def _look_at(self, node: Node) -> None:
        if node.replica is None or not node.replica.guarantees.tentative or _is_at_work(node):
            return
        self.looks += 1
        for id, asked in self._recorder._current_log(node.index).operations.items():
            if not asked.responses:
                strength = "strong" if asked.strong else "weak"
                raise WaitedForOthers(
                    f"replica {node.index} had nothing to do at {self.heap.now_us / 1000:.3f} "
                    "ms, but "
                    f"had not answered the {strength} {id} of {asked.invoked_us / 1000:.3f} ms"
                )


def watched(scenario: Scenario) -> Watched:
    """As `creekdb.simulation.fuzz.campaign.simulation_of`, and in its stead where all seeds are
    watched."""
    scheme = registry.get_scheme(scenario.scheme)
    datatype = datatypes.get_datatype(scenario.datatype)
    settings = scenario.protocol_settings()
    return Watched(scenario, lambda index: scheme(index, settings, datatype))


def _is_at_work(node: Node) -> bool:
    turn_is_due = node._turn_timer is not None
    return (
        turn_is_due
        or not node.cpu.is_idle()
        or node.disk.durable_position != node.disk.end_position
    )
