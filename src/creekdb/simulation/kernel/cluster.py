"""A whole simulated cluster: wires the models together and runs a scenario to its end.

A run has two parts. For `duration_us` clients ask and faults happen. Then clients stop, every fault
is healed, crashed replicas restart, and the run goes on until it is at rest: nothing tentative,
nothing to execute or to write, nobody waiting, and every replica with an equally long `committed`.
A run that is not at rest after `settle_us` more has lost liveness; whether anything else is wrong
is for the checkers to say.

No scheme is imported here: replicas come from a factory that the caller passes in.
"""

from collections.abc import Callable
from random import Random
from typing import TypeAlias

import msgspec

from creekdb.errors import BadValue
from creekdb.history.records import History
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.disk_loss_recovery import ENTERED
from creekdb.protocol.messages import Message, Promised, Record
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Operation
from creekdb.schemes.core.replica import Replica
from creekdb.simulation.faults.fault_types import Add, Remove
from creekdb.simulation.faults.injector import Injector
from creekdb.simulation.faults.membership_operator import Operator
from creekdb.simulation.kernel.node import Node
from creekdb.simulation.kernel.scenario import Sample, Scenario, Source, source_of
from creekdb.simulation.kernel.seeds import derive
from creekdb.simulation.kernel.simulated_time import EventHeap
from creekdb.simulation.models.clients import Clients
from creekdb.simulation.models.network import Network
from creekdb.simulation.observation.counters import (
    CpuStatistics,
    DiskStatistics,
    NetworkStatistics,
    Tally,
)
from creekdb.simulation.observation.recorder import Recorder, Speculation
from creekdb.simulation.observation.samples import (
    Counts,
    ReplicaSample,
    Window,
    between,
    count,
    sample,
)
from creekdb.simulation.observation.trace import Trace

MakeReplica: TypeAlias = Callable[[int], Replica]
"""A new replica with the given index, as on its first day; `recover` is called where it applies."""

EVENTS_MAX = 50_000_000
"""A run with more events than this is running away, not running."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What a simulation leaves behind."""

    history: History
    trace_hash: str
    simulated_us: int
    events: int
    """Of the heap."""
    inputs: int
    """Applied to replicas: what the trace hash covers."""
    unsettled: str | None
    """Why the run did not come to rest, or None."""
    probes: dict[Probe, int]
    refused: dict[str, int]
    """Refused by replicas, by reason."""
    malformed: int
    """Refused before they reached a replica: bytes that are no message."""
    drift_us: dict[int, int]
    strays: int
    """Answers to requests that the incarnation which answers did not issue."""
    gave_up: int
    unserved: int
    crashes: int
    network: NetworkStatistics
    cpu: CpuStatistics
    disk: DiskStatistics
    speculated: dict[Dot, Speculation]
    """Of schemes that execute early and answer late: when they had something to answer."""
    orders: tuple[tuple[tuple[int, Dot], ...], ...]
    """By replica: what it committed, and at which place, as often as it said so."""
    samples: tuple[ReplicaSample, ...]
    """As often as the scenario asks for, and once more at the end."""
    window: Window
    """From the end of the warm-up until clients stopped."""


class Simulation:
    """One run. `nodes`, `network` and `heap` are open to tests that want to look inside."""

    def __init__(
        self,
        scenario: Scenario,
        make_replica: MakeReplica,
        sample: Sample | None = None,
        source: Source | None = None,
    ) -> None:
        """What clients ask for is drawn by `sample`, or by `source`, which may tell replicas apart;
        a scenario that is all script needs neither."""
        clients = scenario.clients
        if sample is not None:
            source = source_of(sample)
        if source is None and (clients.sessions or clients.rate_per_second):
            raise BadValue("the scenario has clients, but there is no sample of what they ask for")
        self.scenario = scenario
        seed, replicas = scenario.seed, scenario.nodes
        self.heap = EventHeap()
        self.network = Network(self.heap, scenario.network, replicas, seed, self._deliver)
        self._recorder = Recorder(self.heap, replicas, scenario.record_events, scenario.replicas)
        self._trace = Trace()
        self._tally = Tally()
        self._crashes = 0
        self._unsettled: str | None = None
        self._settle_by_us = scenario.duration_us + scenario.settle_us
        self._window_begin = self._window_end = Counts()
        self._samples: list[ReplicaSample] = []
        self._clients = Clients(
            self.heap, clients, replicas, seed, source or _nothing, self._client_invoke
        )
        self.nodes = tuple(
            Node(
                index,
                seed=seed,
                heap=self.heap,
                make_replica=make_replica,
                network=self.network,
                cores=scenario.cpu.cores,
                cost=scenario.cpu.cost,
                disk=scenario.disk,
                turn_us=scenario.turn_us,
                in_parts=bool(scenario.settings.get("drafts")),
                clock=scenario.clock.clock(index),
                recorder=self._recorder,
                trace=self._trace,
                tally=self._tally,
                issued=self._clients.issued,
                respond=self._clients.answered,
            )
            for index in range(replicas)
        )
        self._operator = Operator(
            self.nodes,
            derive(seed, "operator"),
            ask=self._clients.ask,
            start=self._start_new,
            stop=self._stop_for_good,
        )
        self._changes_members = any(isinstance(fault, Add | Remove) for fault in scenario.faults)
        self._begins_anew = bool(scenario.protocol_settings().begin_anew)
        self._lets_in = self._changes_members or self._begins_anew
        self._serving: set[int] = set()
        """Whose clients are let in: those who know themselves to be members, and take part."""
        self._injector = Injector(
            self.heap,
            self.network,
            self.nodes,
            self._crash,
            self._lose_disk,
            self._start,
            self._operator.want,
            absent=range(scenario.replicas, replicas),
        )

    def run(self, events_max: int = EVENTS_MAX) -> Run:
        scenario, heap = self.scenario, self.heap
        for node in self.nodes:
            if node.index < scenario.replicas:
                self._start(node.index)
            phase_us = derive(scenario.seed, "phase", node.index).randrange(scenario.tick_us)
            heap.at(phase_us, self._tick, node)
        self._injector.schedule(scenario.faults)
        self._clients.start(scenario.script)
        if scenario.warm_up_us:
            heap.at(scenario.warm_up_us, self._end_of_warm_up)
        for number in range(1, scenario.samples + 1):
            heap.at(scenario.duration_us * number // scenario.samples, self._sample)
        heap.at(scenario.duration_us, self._end_of_load)
        if not heap.run(events_max):
            self._unsettled = f"stopped after {events_max} events"
        if scenario.samples:
            self._sample()
        return self._result()

    # --- what the models ask for -----------------------------------------------------------------

    def _deliver(self, receiver: int, sender: int, data: bytes, message: Message | None) -> None:
        self.nodes[receiver].receive(sender, data, message)

    def _client_invoke(
        self, replica: int, operation: Operation, strong: bool, session: int
    ) -> None:
        if self._lets_in:
            self._let_in(replica)
            if replica not in self._serving:
                return
        self.nodes[replica].invoke(operation, strong, session)

    def _tick(self, node: Node) -> None:
        self.heap.after(self.scenario.tick_us, self._tick, node)
        node.tick()
        if self._lets_in:
            self._let_in(node.index)
        if node.index == 0:
            if self._changes_members:
                self._operator.tick()
            if self._begins_anew:
                self._injector.tick()

    def _let_in(self, replica: int) -> None:
        """Clients come once it is a member and takes part, and go when it is none any more."""
        serves = self._operator.serves(replica)
        if serves and replica not in self._serving:
            self._serving.add(replica)
            self._clients.replica_started(replica)
        elif not serves and replica in self._serving:
            self._serving.discard(replica)
            self._clients.replica_crashed(replica)

    def _start(self, replica: int, found: Record | None = None) -> None:
        self.nodes[replica].start(found)
        if self._lets_in:
            self._let_in(replica)
        else:
            self._clients.replica_started(replica)

    def _start_new(self, replica: int) -> None:
        self._injector.dead.discard(replica)
        self._start(replica, Promised(ENTERED) if self._begins_anew else None)

    def _stop_for_good(self, replica: int) -> None:
        self._injector.dead.add(replica)
        self._recorder.dismissed(replica)
        self._crash(replica)

    def _crash(self, replica: int) -> None:
        self._clients_leave(replica)
        self.nodes[replica].crash()

    def _lose_disk(self, replica: int) -> None:
        self._clients_leave(replica)
        self.nodes[replica].lose_disk()

    def _clients_leave(self, replica: int) -> None:
        self._crashes += 1
        self._serving.discard(replica)
        self._clients.replica_crashed(replica)

    def _sample(self) -> None:
        self._samples += sample(self.heap.now, self.nodes, self.network)

    # --- coming to rest --------------------------------------------------------------------------

    def _counts(self) -> Counts:
        return count(self.heap.now, [node.cpu for node in self.nodes], self.network)

    def _end_of_warm_up(self) -> None:
        self._window_begin = self._counts()

    def _end_of_load(self) -> None:
        self._window_end = self._counts()
        self._clients.stop()
        self._operator.finish()
        self._injector.heal_all()
        self._check_rest()

    def _check_rest(self) -> None:
        for node in self.nodes:
            node.end_turn_now()
        self._unsettled = self._restless()
        if self._unsettled is None or self.heap.now >= self._settle_by_us:
            self.heap.stop()
        else:
            self.heap.after(self.scenario.tick_us, self._check_rest)

    def _restless(self) -> str | None:
        """Why the cluster is not at rest, or None."""
        if self._changes_members and (changing := self._operator.unsettled()) is not None:
            return changing
        replicas = [node.replica for node in self.nodes if node.replica is not None]
        lengths = [replica.committed_length() for replica in replicas]
        if len(set(lengths)) > 1:
            return f"committed lengths differ: {', '.join(map(str, lengths))}"
        for node in self.nodes:
            if node.index in self._injector.dead:
                continue
            if (problem := node.unsettled()) is not None:
                return f"replica {node.index} {problem}"
        if self._clients.waiting:
            return f"{self._clients.waiting} clients are waiting"
        return None

    # --- the result ------------------------------------------------------------------------------

    def _result(self) -> Run:
        replicas = [node.replica for node in self.nodes if node.replica is not None]
        tally = self._tally
        for replica in replicas:
            tally.add(replica)
        cpus = [node.cpu for node in self.nodes]
        disks = [node.disk for node in self.nodes]
        return Run(
            history=self._recorder.history(
                self.scenario.config(), self.scenario.datatype, self._unsettled is None, replicas
            ),
            trace_hash=self._trace.hexdigest(),
            simulated_us=self.heap.now,
            events=self.heap.processed,
            inputs=self._trace.inputs,
            unsettled=self._unsettled,
            probes=tally.probes,
            refused=tally.refused,
            malformed=tally.malformed,
            drift_us=tally.drift_us,
            strays=self._recorder.strays,
            gave_up=self._clients.gave_up,
            unserved=self._clients.unserved,
            crashes=self._crashes,
            network=self.network.statistics(),
            cpu=CpuStatistics(
                busy_us=tuple(cpu.busy_us for cpu in cpus),
                executions=tuple(cpu.executions for cpu in cpus),
                rollbacks=tuple(cpu.rollbacks for cpu in cpus),
            ),
            disk=DiskStatistics(
                records=sum(disk.records_written for disk in disks),
                bytes=sum(disk.bytes_written for disk in disks),
                fsyncs=sum(disk.fsyncs for disk in disks),
                lost=sum(disk.lost for disk in disks),
                torn=sum(disk.torn for disk in disks),
            ),
            speculated=self._recorder.speculated,
            orders=self._recorder.orders(),
            samples=tuple(self._samples),
            window=between(self._window_begin, self._window_end),
        )


def _nothing(replica: int, random: Random) -> Operation:
    raise AssertionError("nobody asks")
