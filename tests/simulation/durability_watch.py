"""Watch on simulated replicas: nothing leaves a replica before the records that it depends on.

ARCHITECTURE.md ("Durable before sent") states which record is durable before which message or
response. The watch compares every message and response with the durable records on the disk of its
sender. It does not use the release rule, so a fault of the rule cannot hide from it.

The watch is not a checker, since a history records neither messages nor disks. The loss of a vote
or a decision violates a property only if several replicas crash at the wrong time.
"""

from collections.abc import Container, Sequence
from typing import Any

from creekdb.protocol.effects import Response, ResponseKind
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import (
    Accept,
    Accepted,
    Ballot,
    Cast,
    CheckpointRecord,
    Decided,
    FirstVote,
    Message,
    Prepare,
    Progress,
    Promise,
    Promised,
    Received,
    Record,
    Snapshot,
    Vote,
    decode_record,
)
from creekdb.simulation.kernel.cluster import Simulation
from creekdb.simulation.kernel.node import Node
from creekdb.simulation.models.disk import Disk
from creekdb.simulation.models.network import Network


class SentBeforeDurable(Exception):
    """A message or response left a replica before a record that it depends on was durable."""


class DurableRecords:
    """Content of the durable records on one disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._reset()

    def _reset(self) -> None:
        self._crashes = self._disk._crashes
        self._position = 0
        self._requests: set[Dot] = set()
        self._covered = Dots()
        self._decided: set[int] = set()
        self.accepted: set[tuple[Ballot, int]] = set()
        self.promised = Ballot(-1, 0)
        self.decided_length = 0
        """Number of instances, from the first one on, whose decisions are durable."""

    def has_request(self, id: Dot) -> bool:
        return id in self._requests or id in self._covered

    def update(self) -> None:
        """Read the records that have become durable since the last call."""
        disk = self._disk
        if disk._crashes != self._crashes:
            self._reset()
        first = max(self._position, disk._dropped) - disk._dropped
        for data in disk._log[first : disk.durable_position - disk._dropped]:
            if data:
                self._apply(decode_record(data))
        self._position = disk.durable_position
        while self.decided_length in self._decided:
            self.decided_length += 1

    def _apply(self, record: Record) -> None:
        match record:
            case Received(request=request):
                self._requests.add(request.id)
            case Promised(ballot=ballot):
                self.promised = max(self.promised, ballot)
            case Accepted(value=value):
                self.accepted.add((value.ballot, value.instance))
            case Decided(instance=instance):
                self._decided.add(instance)
            case CheckpointRecord(checkpoint=checkpoint):
                self._covered = checkpoint.ids
                self._requests.update(each.id for each in record.requests)
                self._decided.update(instance for instance, _ in record.decided)
                self.accepted.update((each.ballot, each.instance) for each in record.accepted)
                self.promised = max(self.promised, record.promised)
                self.decided_length = max(self.decided_length, checkpoint.instance)


class _NodeWatch:
    """Intercepts the messages and responses of one node. Otherwise it is the node's network."""

    def __init__(self, node: Node, network: Network, has_volatile_responses: bool) -> None:
        self._node = node
        self._network = network
        self._has_volatile_responses = has_volatile_responses
        self._records = DurableRecords(node.disk)
        self._respond = node._on_response

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)

    def send(self, sender: int, to: Sequence[int], message: Message) -> None:
        self._records.update()
        if not self._is_durable(message):
            raise SentBeforeDurable(f"replica {sender} sent {message} before its record")
        self._network.send(sender, tuple(to), message)

    def _is_durable(self, message: Message) -> bool:
        records = self._records
        match message:
            case Cast(requests=requests):
                own = [each.id for each in requests if each.id.replica == self._node.index]
                return all(map(records.has_request, own))
            case Promise(ballot=ballot) | Prepare(ballot=ballot):
                return ballot <= records.promised
            case Accept(ballot=ballot, batch=batch):
                # A request that a crash loses leaves its event number to a later one.
                own = [id for id in batch if id.replica == self._node.index]
                return ballot <= records.promised and all(map(records.has_request, own))
            case FirstVote(ballot=ballot, instance=instance):
                if ballot.replica != self._node.index:
                    instance = ~instance
                is_decided = max(instance, ~instance) < records.decided_length
                return (ballot, instance) in records.accepted or is_decided
            case Vote(ballot=ballot, instance=instance):
                # A checkpoint that has become durable meanwhile may have replaced the record.
                return (ballot, instance) in records.accepted or instance < records.decided_length
            case Progress(delivered=delivered):
                return delivered <= records.decided_length
            case Snapshot(checkpoint=checkpoint):
                return checkpoint.instance <= records.decided_length
            case _:
                return True

    def _operations(self) -> Container[Dot]:
        """Return the requests that clients issued at the current incarnation."""
        return self._node._recorder._current_log(self._node.index).operations

    def respond(self, response: Response) -> None:
        self._records.update()
        counted = {response.id} if response.id.event > 0 else set()
        if response.observed is not None:
            counted.update(response.observed.ids)
        # A replica issues no-ops itself. They have no effect that a client could have seen.
        calls = self._operations()
        own = [each for each in counted if each in calls]
        is_volatile = self._has_volatile_responses and response.kind is ResponseKind.TENTATIVE
        if not is_volatile and not all(map(self._records.has_request, own)):
            raise SentBeforeDurable(
                f"replica {self._node.index} sent {response} before its request was durable"
            )
        self._respond(response)


def watch_durability(simulation: Simulation) -> None:
    """Watch all nodes of a simulation that has not started."""
    is_volatile = simulation.scenario.durability == "memory"
    for node in simulation.nodes:
        watch = _NodeWatch(node, simulation.network, is_volatile)
        node._network = watch  # type: ignore[assignment]
        node._on_response = watch.respond
