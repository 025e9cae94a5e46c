"""Simulated cluster that a test controls step by step.

    cluster = SimulatedCluster(seats)
    cluster.partition([0], [1, 2])
    call = cluster.client(0).weak.book("C", 9, "ann")
    assert call.tentative == "C9"
    cluster.heal()
    assert call.final.value == "C9"

Replicas, disks and links are those of `creek simulate`. Time passes only inside the methods below,
and equal tests have equal runs. A response that needs time advances the simulation until it
arrives.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, Generic, overload

from creekdb.client.calls import FinalOutcome
from creekdb.client.errors import NotDone, OperationFailed, Unknown
from creekdb.client.operations import OperationDirectory
from creekdb.client.proxies import (
    AnyOperation,
    CallOptions,
    CallProxy,
    ConsistencyLevels,
    Parameters,
    Result,
    TypedOperation,
)
from creekdb.errors import BadValue, UnknownName, UsageError
from creekdb.execution.datatype import DataType, DataTypeWrapper
from creekdb.execution.keys import FIRST_COLLATION_KEY, LAST_COLLATION_KEY
from creekdb.execution.operation_errors import ErrorTraces
from creekdb.history import History
from creekdb.history.records import ResponseRecord
from creekdb.protocol.effects import ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.values import Key
from creekdb.schemes import registry
from creekdb.simulation import ClientModel, Scenario, Simulation
from creekdb.simulation.observation.recorder import Invocation
from creekdb.testing.replica_numbers import check_replica, checked_groups, no_state_error
from creekdb.wire.deduplication import describe_call
from creekdb.wire.reject_reason import RejectReason

PATIENCE_S: Final = 10.0
"""Simulated time after which a response that has not arrived is unknown, in seconds."""
STEP_US: Final = 500
"""Simulated time between two checks for a response, in microseconds."""
SECOND_US: Final = 1_000_000


class SimulatedCluster:
    """Cluster in simulated time. `seed` determines delays and clocks."""

    def __init__(
        self,
        datatype: DataType,
        *,
        replicas: int = 3,
        seed: int = 0,
        scheme: str = "creek",
        patience: float = PATIENCE_S,
    ) -> None:
        """`patience` is the simulated time that a call waits for a response, in seconds."""
        self.datatype = datatype
        self.patience_us = int(patience * SECOND_US)
        self.traces: list[str] = []
        """Traces of the errors of operations, one for each operation and line."""
        scenario = Scenario(
            seed=seed,
            scheme=scheme,
            datatype=datatype.name,
            replicas=replicas,
            record_orders=True,  # lets the checkers verify every response
            clients=ClientModel(sessions=0, patience_us=0),
        )
        replicated = DataTypeWrapper(datatype)
        replicated.error_observer = ErrorTraces(lambda *report: self.traces.append(report[-1]))
        settings, create = scenario.protocol_settings(), registry.get_scheme(scheme)
        self._simulation = Simulation(scenario, lambda index: create(index, settings, replicated))
        self._simulation.start()
        self._clients = 0
        self._history: History | None = None
        self.advance(0.1)  # until a leader is elected

    def __repr__(self) -> str:
        return f"<simulated cluster of '{self.datatype.name}' at {self.now:.3f} s>"

    @property
    def replicas(self) -> range:
        """Numbers of the replicas."""
        return range(len(self._simulation.nodes))

    @property
    def now(self) -> float:
        """Simulated time, in seconds."""
        return self._simulation.heap.now_us / SECOND_US

    def client(self, replica: int = 0) -> "SimulatedClient":
        """Return a new client of a replica, with `weak` and `strong` as a connection has them."""
        check_replica(replica, self.replicas)
        self._clients += 1
        return SimulatedClient(self, replica, self._clients)

    def advance(self, seconds: float) -> None:
        """Let simulated time pass."""
        if seconds < 0:
            raise BadValue(f"time cannot pass backwards: {seconds!r} s; pass a number from 0")
        self._check_running()
        self._simulation.advance(int(seconds * SECOND_US))

    def partition(self, *groups: Iterable[int]) -> None:
        """Split the cluster into groups. Replicas that are not named form one more group."""
        self._simulation.network.partition(checked_groups(groups, self.replicas))

    def heal(self) -> None:
        """End the partition. Replicas that were killed stay down until `start`."""
        self._simulation.network.heal()

    def kill(self, replica: int) -> None:
        """Crash a replica. Its disk keeps what was durable."""
        check_replica(replica, self.replicas)
        self._simulation.crash(replica)

    def start(self, replica: int) -> None:
        """Restart a replica that was killed."""
        check_replica(replica, self.replicas)
        self._simulation.restart(replica)

    def state(self, replica: int = 0) -> dict[Key, Any]:
        """Return the committed registers of a replica, without effects of tentative calls."""
        check_replica(replica, self.replicas)
        running = self._simulation.nodes[replica].replica
        if running is None:
            raise no_state_error(replica)
        view = running.view
        newest = view.readable_lengths()[-1]
        return dict(view.committed_items(newest, FIRST_COLLATION_KEY, LAST_COLLATION_KEY))

    def finish(self) -> History:
        """End all faults, wait until nothing is left to do, and return the history of the run.

        Raises `AssertionError` if the cluster does not become quiescent.
        """
        if self._history is None:
            run = self._simulation.finish()
            assert run.quiescence_failure is None, run.quiescence_failure
            self._history = run.history
        return self._history

    # --- for clients ------------------------------------------------------------------------------

    def invoke(self, replica: int, name: str, options: CallOptions, *values: Any) -> Invocation:
        """Invoke an operation at a replica now."""
        self._check_running()
        if not self._simulation.is_up(replica):
            raise NotDone(RejectReason.UNREACHABLE, f"replica {replica} is down; start it first")
        operation = self.datatype.call(name, *values)
        return self._simulation.invoke(replica, operation, options.strong, options.session)

    def step(self) -> None:
        """Let a short time pass."""
        self._simulation.advance(STEP_US)

    @property
    def now_us(self) -> int:
        """Simulated time, in microseconds."""
        return self._simulation.heap.now_us

    @property
    def is_finished(self) -> bool:
        """True if the run has ended, so that no response can arrive any more."""
        return self._history is not None

    def _check_running(self) -> None:
        if self.is_finished:
            raise UsageError("the simulation has ended; create another one for more calls")


class SimulatedCallProxy(CallProxy["SimulatedCall[Any]"]):
    """Proxy that calls operations without waiting: the result is a `SimulatedCall`."""

    @overload
    def __call__(
        self,
        operation: TypedOperation[Parameters, Result],
        /,
        *arguments: Parameters.args,
        **named: Parameters.kwargs,
    ) -> "SimulatedCall[Result]": ...

    @overload
    def __call__(
        self, operation: str = "", /, *arguments: Any, **named: Any
    ) -> "SimulatedCall[Any]": ...

    def __call__(
        self, operation: AnyOperation = "", /, *arguments: Any, **named: Any
    ) -> "SimulatedCall[Any]":
        return self._invoke(operation, *arguments, **named)


class SimulatedClient(ConsistencyLevels[SimulatedCallProxy]):
    """Client of one replica. It is one session."""

    _variable_name = "client"

    def __init__(self, cluster: SimulatedCluster, replica: int, session: int) -> None:
        self._cluster = cluster
        self._replica = replica
        self._operations = OperationDirectory(cluster.datatype)
        super().__init__(
            lambda options: SimulatedCallProxy(self._call, options, self._operations), session
        )

    def __repr__(self) -> str:
        return f"<client of replica {self._replica} of '{self._cluster.datatype.name}'>"

    def _call(
        self, options: CallOptions, name: str, /, *arguments: Any, **named: Any
    ) -> "SimulatedCall[Any]":
        try:
            values = self._operations.positional(name, arguments, named)
        except UnknownName as error:
            raise NotDone(RejectReason.UNKNOWN_OPERATION, str(error)) from error
        except UsageError as error:
            raise NotDone(RejectReason.BAD_ARGUMENTS, str(error)) from error
        invocation = self._cluster.invoke(self._replica, name, options, *values)
        return SimulatedCall(self._cluster, invocation)


class SimulatedCall(Generic[Result]):
    """A call in simulated time. `tentative`, `stable` and `final` advance it until they arrive.

    They raise `OperationFailed` and `Unknown` as a live call does.
    """

    def __init__(self, cluster: SimulatedCluster, invocation: Invocation) -> None:
        self._cluster = cluster
        self._record, self._responses = invocation

    def __repr__(self) -> str:
        level = "strong" if self._record.strong else "weak"
        kinds = ", ".join(each.kind for each in self._responses) or "no response yet"
        return f"<{level} call {describe_call(self._record.operation)}: {kinds}>"

    def __iter__(self) -> Iterator[ResponseRecord]:
        """Iterate over the responses so far."""
        return iter(tuple(self._responses))

    @property
    def id(self) -> Dot:
        """Id of the call."""
        return self._record.id

    @property
    def tentative(self) -> Result:
        """Value of the first response, tentative or not."""
        return self._value(self._wait_for(*ResponseKind))

    @property
    def stable(self) -> Result:
        """Value of the stable response, which never changes; the final response of a weak call."""
        return self._value(self._wait_for(ResponseKind.STABLE, ResponseKind.FINAL))

    @property
    def final(self) -> FinalOutcome[Result]:
        """Last response, and whether it differs from the first one."""
        response = self._wait_for(ResponseKind.STABLE, ResponseKind.FINAL)
        first = self._responses[0].outcome
        return FinalOutcome(self._value(response), not response.outcome.same_as(first))

    def _wait_for(self, *kinds: ResponseKind) -> ResponseRecord:
        cluster, operation = self._cluster, self._record.operation.name
        deadline_us = cluster.now_us + cluster.patience_us
        while True:
            for response in self._responses:
                if response.kind in kinds:
                    return response
            if self._record.is_local and self._responses:
                raise UsageError(
                    f"{operation} has no {kinds[0]} response: a weak read has one tentative "
                    "response only; use a strong call"
                )
            if cluster.is_finished or cluster.now_us >= deadline_us:
                patience_s = cluster.patience_us / SECOND_US
                raise Unknown(
                    f"{operation}: no {kinds[0]} response within {patience_s:g} simulated s; "
                    "end the partition, or restart the replica"
                )
            cluster.step()

    def _value(self, response: ResponseRecord) -> Result:
        outcome, first = response.outcome, self._responses[0]
        if outcome.error is None:
            value: Result = outcome.value
            return value
        raise OperationFailed(
            outcome.error,
            kind=response.kind,
            changed=response is not first and first.outcome.error is None,
            call=self,
        )
