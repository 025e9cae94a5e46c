"""Simulated cluster: connects the models and runs a scenario to its end.

A run has two phases. In the load phase of `duration_us`, clients issue operations and faults
happen. Then clients stop, every fault is healed, crashed replicas restart, and the run continues
until it is quiescent. In a quiescent cluster no request is tentative, nothing is left to execute or
to write, and no client waits. All replicas have an equally long `committed`.

A run that is not quiescent after `settle_us` more has lost liveness. Safety is judged by the
checkers.

This module imports no scheme; the caller passes in a factory of replicas.
"""

from collections.abc import Callable
from random import Random
from typing import TypeAlias

import msgspec

from creekdb.errors import BadValue
from creekdb.history.records import History
from creekdb.protocol.effects import DataLost
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.disk_loss_recovery import JOINED_BALLOT
from creekdb.protocol.messages import Message, Promised, Record
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Operation
from creekdb.schemes.core.replica import Replica
from creekdb.simulation.faults.fault_types import MemberChange, RollbackDisk
from creekdb.simulation.faults.injector import FaultInjector, ReplicaControl
from creekdb.simulation.faults.membership_operator import MembershipOperator
from creekdb.simulation.kernel.hello_exchange import HelloExchange, StoredEvidence
from creekdb.simulation.kernel.node import Node
from creekdb.simulation.kernel.scenario import (
    OperationSampler,
    OperationSource,
    Scenario,
    ScriptedInvocation,
    source_from_sampler,
)
from creekdb.simulation.kernel.seeds import derive_generator
from creekdb.simulation.kernel.simulated_time import EventHeap
from creekdb.simulation.models.clients import SimulatedClients
from creekdb.simulation.models.network import Network
from creekdb.simulation.observation.recorder import HistoryRecorder, Invocation, Speculation
from creekdb.simulation.observation.samples import (
    CounterTotals,
    CpuStatistics,
    MeasurementWindow,
    NetworkStatistics,
    ReplicaCounters,
    ReplicaSample,
)
from creekdb.simulation.observation.trace import TraceHash

ReplicaFactory: TypeAlias = Callable[[int], Replica]
"""Creates a replica with the given index and no state; the node calls `recover` if needed."""

EVENTS_MAX = 50_000_000
"""Upper bound for the events of one run; a run that exceeds it does not terminate."""


class SimulationRun(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a simulation."""

    history: History
    trace_hash: str
    simulated_us: int
    events: int
    """Number of events of the heap."""
    inputs: int
    """Number of inputs applied to replicas, which the trace hash covers."""
    quiescence_failure: str | None
    """Reason why the run did not quiesce, or None."""
    probes: dict[Probe, int]
    rejected: dict[str, int]
    """Number of messages that replicas rejected, by reason."""
    malformed: int
    """Number of byte strings that did not decode to a message; no replica received them."""
    drift_us: dict[int, int]
    timed_out_calls: int
    unserved_calls: int
    crashes: int
    data_losses: dict[int, str]
    """Replicas that stopped because their disks were rolled back, and the lost data."""
    conflicts: tuple[tuple[int, int], ...]
    """Pairs of replicas that rejected each other because of contradictory states."""
    network: NetworkStatistics
    cpu: CpuStatistics
    speculations: dict[Dot, Speculation]
    """First speculative execution of each request, for schemes that withhold responses."""
    commit_orders: tuple[tuple[tuple[int, Dot], ...], ...]
    """By replica: (position, request) of every commit that the replica reported."""
    samples: tuple[ReplicaSample, ...]
    """Samples as configured by the scenario, and one more at the end."""
    window: MeasurementWindow
    """Measurements from the end of the warm-up until clients stopped."""


class Simulation:
    """One run. `nodes`, `network` and `heap` are public for tests."""

    def __init__(
        self,
        scenario: Scenario,
        make_replica: ReplicaFactory,
        sample: OperationSampler | None = None,
        source: OperationSource | None = None,
    ) -> None:
        """Create a simulation whose clients draw operations from `sample` or from `source`.

        A `source` may distinguish replicas. A scenario with only a script needs neither.
        """
        clients = scenario.clients
        if sample is not None:
            source = source_from_sampler(sample)
        if source is None and (clients.sessions or clients.rate_per_second):
            raise BadValue("the scenario has clients, but no sample or source of operations")
        self.scenario = scenario
        seed, replicas = scenario.seed, scenario.node_count
        self.heap = EventHeap()
        self.network = Network(self.heap, scenario.network, replicas, seed, self._deliver)
        self._recorder = HistoryRecorder(
            self.heap, replicas, scenario.record_events, scenario.replicas
        )
        has_rollbacks = any(isinstance(fault, RollbackDisk) for fault in scenario.faults)
        self._trace = TraceHash()
        self._counters = ReplicaCounters()
        self._crashes = 0
        self._quiescence_failure: str | None = None
        self._quiescence_deadline_us = scenario.duration_us + scenario.settle_us
        self._window_begin = self._window_end = CounterTotals()
        self._samples: list[ReplicaSample] = []
        self._clients = SimulatedClients(
            self.heap, clients, replicas, seed, source or _no_operations, self._client_invoke
        )
        self.nodes = tuple(
            Node(
                index,
                scenario,
                heap=self.heap,
                make_replica=make_replica,
                network=self.network,
                recorder=self._recorder,
                trace=self._trace,
                counters=self._counters,
                on_issued=self._clients.record_id,
                on_response=self._clients.handle_response,
                on_data_lost=self._handle_data_lost if has_rollbacks else None,
            )
            for index in range(replicas)
        )
        self._data_losses: dict[int, str] = {}
        self._hellos: HelloExchange | None = None
        """Exchange of evidence. None if no disk is rolled back, to save the time."""
        if has_rollbacks:
            self._hellos = HelloExchange(self.nodes, self._stop_after_data_loss)
        self._operator = MembershipOperator(
            self.nodes,
            derive_generator(seed, "operator"),
            invoke=self._clients.inject_call,
            start=self._start_new,
            stop=self._stop_permanently,
        )
        self._has_member_changes = any(isinstance(fault, MemberChange) for fault in scenario.faults)
        self._has_disk_loss_recovery = bool(scenario.protocol_settings().begin_anew)
        self._has_gated_clients = self._has_member_changes or self._has_disk_loss_recovery
        self._serving_replicas: set[int] = set()
        """Replicas that accept clients: members that have joined."""
        self._injector = FaultInjector(
            self.heap,
            self.network,
            self.nodes,
            ReplicaControl(
                self._crash,
                self._lose_disk,
                self._copy_disk,
                self._start,
                self._operator.queued_changes.append,
            ),
            absent=range(scenario.replicas, replicas),
        )

    def run(self, events_max: int = EVENTS_MAX) -> SimulationRun:
        """Run the scenario to its end."""
        self.start()
        self.heap.schedule_at(self.scenario.duration_us, self._finish_load)
        return self._run_to_end(events_max)

    # --- step by step ----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the replicas, clients and faults of the scenario."""
        scenario, heap = self.scenario, self.heap
        for node in self.nodes:
            if node.index < scenario.replicas:
                self._start(node.index)
            phase_us = derive_generator(scenario.seed, "phase", node.index).randrange(
                scenario.tick_us
            )
            heap.schedule_at(phase_us, self._tick, node)
        self._injector.schedule(scenario.faults)
        self._clients.start(scenario.script)
        if scenario.warm_up_us:
            heap.schedule_at(scenario.warm_up_us, self._finish_warm_up)
        for number in range(1, scenario.samples + 1):
            heap.schedule_at(scenario.duration_us * number // scenario.samples, self._sample)

    def advance(self, duration_us: int) -> None:
        """Run for a duration. Call `start` before."""
        self.heap.schedule_after(duration_us, self.heap.stop)
        self.heap.run()

    def invoke(self, replica: int, operation: Operation, strong: bool, session: int) -> Invocation:
        """Invoke an operation now. `session` distinguishes the sessions at the replica.

        Returns the invocation, whose list of responses grows as the simulation advances.
        """
        self._clients.invoke_now(ScriptedInvocation(0, replica, operation, strong, session))
        return self._recorder.last_invocation()

    def is_up(self, replica: int) -> bool:
        """True if the replica is running."""
        return self.nodes[replica].replica is not None

    def crash(self, replica: int) -> None:
        """Crash the replica. Has no effect if it is down."""
        if self.is_up(replica):
            self._crash(replica)

    def restart(self, replica: int) -> None:
        """Restart the replica. Has no effect if it is up."""
        self._injector.restart(replica)

    def finish(self, events_max: int = EVENTS_MAX) -> SimulationRun:
        """Heal all faults, run until the cluster is quiescent, and return the result."""
        self.heap.schedule_after(0, self._finish_load)
        return self._run_to_end(events_max)

    def _run_to_end(self, events_max: int) -> SimulationRun:
        scenario = self.scenario
        if not self.heap.run(events_max):
            self._quiescence_failure = f"stopped after {events_max} events"
        if scenario.samples:
            self._sample()
        return self._build_result()

    # --- callbacks of the models -----------------------------------------------------------------

    def _deliver(self, receiver: int, sender: int, data: bytes, message: Message | None) -> None:
        if self._hellos is None or self._hellos.connect(receiver, sender):
            self.nodes[receiver].receive(sender, data, message)

    def _client_invoke(
        self, replica: int, operation: Operation, strong: bool, session: int
    ) -> None:
        if self._has_gated_clients:
            self._update_client_access(replica)
            if replica not in self._serving_replicas:
                return
        if self.nodes[replica].can_accept(operation, strong):
            self.nodes[replica].invoke(operation, strong, session)
        else:
            self._clients.reject_call(session)

    def _tick(self, node: Node) -> None:
        self.heap.schedule_after(self.scenario.tick_us, self._tick, node)
        node.tick()
        if self._has_gated_clients:
            self._update_client_access(node.index)
        if node.index == 0:
            if self._has_member_changes:
                self._operator.tick()
            if self._has_disk_loss_recovery:
                self._injector.tick()

    def _update_client_access(self, replica: int) -> None:
        """Connect clients once the replica has joined; disconnect them once it is removed."""
        is_serving = self._operator.is_serving(replica)
        if is_serving and replica not in self._serving_replicas:
            self._serving_replicas.add(replica)
            self._clients.replica_started(replica)
        elif not is_serving and replica in self._serving_replicas:
            self._serving_replicas.discard(replica)
            self._clients.replica_crashed(replica)

    def _start(self, replica: int, initial_record: Record | None = None) -> None:
        self.nodes[replica].start(initial_record)
        if self._hellos is not None:
            self._hellos.replica_started(replica, self.network.reachable_from(replica))
            if self.nodes[replica].replica is None:
                return  # it has lost data
        if self._has_gated_clients:
            self._update_client_access(replica)
        else:
            self._clients.replica_started(replica)

    def _start_new(self, replica: int) -> None:
        self._injector.absent_replicas.discard(replica)
        self._start(replica, Promised(JOINED_BALLOT) if self._has_disk_loss_recovery else None)

    def _stop_permanently(self, replica: int) -> None:
        self._injector.absent_replicas.add(replica)
        self._recorder.record_removal(replica)
        self._crash(replica)

    def _crash(self, replica: int) -> None:
        self._crashes += 1
        self._serving_replicas.discard(replica)
        self._clients.replica_crashed(replica)
        if self._hellos is not None:
            self._hellos.replica_stopping(replica)
        self.nodes[replica].crash()

    def _lose_disk(self, replica: int) -> None:
        self._crash(replica)
        self.nodes[replica].lose_disk()
        if self._hellos is not None:
            self._hellos.replace_evidence(replica, StoredEvidence())

    def _copy_disk(self, replica: int) -> Callable[[], None]:
        """Copy the disk, and return the function that puts the copy in its place."""
        node, hellos = self.nodes[replica], self._hellos
        assert hellos is not None
        records, evidence = node.disk.copy(), hellos.stored_evidence(replica)

        def put_in_place() -> None:
            node.replace_disk(records)
            hellos.replace_evidence(replica, evidence)

        return put_in_place

    def _handle_data_lost(self, replica: int, lost: DataLost) -> None:
        self._stop_after_data_loss(replica, f"{lost.kind.value} that replica {lost.sender} has")

    def _stop_after_data_loss(self, replica: int, loss: str) -> None:
        self._data_losses[replica] = loss
        self._injector.absent_replicas.add(replica)
        self._crash(replica)

    def _sample(self) -> None:
        """Sample the counters. This event changes neither the run nor its trace."""
        self._samples += [
            ReplicaSample(
                replica=node.index,
                at_us=self.heap.now_us,
                committed=node.replica.view.committed_length(),
                tentative=len(node.replica.view.tentative_ids()),
                executions=node.cpu.executions,
                busy_us=node.cpu.busy_us,
                bytes=self.network.sent_bytes[node.index],
            )
            for node in self.nodes
            if node.replica is not None
        ]

    # --- quiescence ------------------------------------------------------------------------------

    def _read_totals(self) -> CounterTotals:
        network = self.network.statistics()
        return CounterTotals(
            at_us=self.heap.now_us,
            busy_us=sum(node.cpu.busy_us for node in self.nodes),
            executions=sum(node.cpu.executions for node in self.nodes),
            rollbacks=sum(node.cpu.rollbacks for node in self.nodes),
            messages=network.messages,
            bytes=network.bytes,
        )

    def _finish_warm_up(self) -> None:
        self._window_begin = self._read_totals()

    def _finish_load(self) -> None:
        self._quiescence_deadline_us = self.heap.now_us + self.scenario.settle_us
        self._window_end = self._read_totals()
        self._clients.stop()
        self._operator.queued_changes.clear()
        self._injector.heal_all()
        self._check_quiescence()

    def _check_quiescence(self) -> None:
        for node in self.nodes:
            node.flush_turn()
        self._quiescence_failure = self._find_pending_work()
        if self._quiescence_failure is None or self.heap.now_us >= self._quiescence_deadline_us:
            self.heap.stop()
        else:
            self.heap.schedule_after(self.scenario.tick_us, self._check_quiescence)

    def _find_pending_work(self) -> str | None:
        """Return why the cluster is not quiescent, or None."""
        if (
            self._has_member_changes
            and (membership_work := self._operator.pending_work()) is not None
        ):
            return membership_work
        replicas = [node.replica for node in self.nodes if node.replica is not None]
        lengths = [replica.view.committed_length() for replica in replicas]
        if len(set(lengths)) > 1:
            return f"committed lengths differ: {', '.join(map(str, lengths))}"
        for node in self.nodes:
            if node.index in self._injector.absent_replicas:
                continue
            if (node_work := node.pending_work()) is not None:
                return f"replica {node.index} {node_work}"
        if self._clients.waiting_sessions:
            return f"{self._clients.waiting_sessions} clients are waiting"
        return None

    # --- the result ------------------------------------------------------------------------------

    def _build_result(self) -> SimulationRun:
        replicas = [node.replica.view for node in self.nodes if node.replica is not None]
        counters = self._counters
        for replica in replicas:
            counters.add(replica)
        cpus = [node.cpu for node in self.nodes]
        return SimulationRun(
            history=self._recorder.history(
                self.scenario.to_config(),
                self.scenario.datatype,
                self._quiescence_failure is None,
                replicas,
            ),
            trace_hash=self._trace.hexdigest(),
            simulated_us=self.heap.now_us,
            events=self.heap.processed_events,
            inputs=self._trace.input_count,
            quiescence_failure=self._quiescence_failure,
            probes=dict(counters.probes),
            rejected=dict(counters.rejected),
            malformed=counters.malformed,
            drift_us=counters.drift_us,
            timed_out_calls=self._clients.timed_out_calls,
            unserved_calls=self._clients.unserved_calls,
            crashes=self._crashes,
            data_losses=self._data_losses,
            conflicts=() if self._hellos is None else tuple(sorted(self._hellos.conflicts)),
            network=self.network.statistics(),
            cpu=CpuStatistics(
                busy_us=tuple(cpu.busy_us for cpu in cpus),
                executions=tuple(cpu.executions for cpu in cpus),
                rollbacks=tuple(cpu.rollbacks for cpu in cpus),
            ),
            speculations=self._recorder.speculations,
            commit_orders=self._recorder.commit_orders(),
            samples=tuple(self._samples),
            window=self._window_end.since(self._window_begin),
        )


def _no_operations(replica: int, random: Random) -> Operation:
    raise AssertionError("a scenario without clients draws no operations")
