"""Builds small histories, legal by default and illegal on request.

A `HistoryBuilder` is a minimal model of Creek under the control of a test. The test invokes
operations, and chooses where requests are RB-delivered, decided and CAB-delivered. The builder
maintains the lists of Algorithm 1 and logs the events of a replica. To make a history illegal,
`log` adds any event, and the `with_…` functions modify a finished history.
"""

from collections.abc import Callable, Sequence
from random import Random

import msgspec

from creekdb.checkers import Illegal, Ok, RunIndex, Verdict
from creekdb.datatypes import DATATYPES, get_datatype
from creekdb.history import (
    NOOP,
    Ballot,
    BallotPromised,
    CabDelivered,
    CheckpointInstalled,
    Committed,
    Dot,
    Event,
    FinalState,
    History,
    LoggedEvent,
    ObservedOrder,
    Operation,
    OperationRecord,
    Outcome,
    RbCast,
    RbDelivered,
    ReplicaLog,
    Request,
    ResponseKind,
    ResponseRecord,
    SchemeGuarantees,
    Voted,
)
from creekdb.protocol.ids.version_vector import Dots, DotSet
from tests.unit.execution.strategies import sample_operation

BALLOT = Ballot(1, 0)
"""Ballot in which all batches are decided."""

CREEK = SchemeGuarantees()
PRIMARY = SchemeGuarantees(voters=(0,), contexts=False, sequential=True)
"""Replica 0 orders each request individually."""
STABLE_ONLY = SchemeGuarantees(contexts=False, tentative=False, sequential=True)
"""State machine replication: each request is ordered before its response is sent."""


class _Incarnation:
    """State and log of one incarnation of a replica."""

    def __init__(self, incarnation: int, started_us: int) -> None:
        self.incarnation = incarnation
        self.started_us = started_us
        self.crashed_us: int | None = None
        self.events: list[LoggedEvent] = []
        self.lost_event_count = 0
        """Number of trailing events that no other process could observe."""
        self.received: list[Dot] = []
        self.context = DotSet()
        self.committed: list[Dot] = []
        self.tentative: list[Dot] = []
        self.instance = 0
        self.checkpoint_length = 0


class HistoryBuilder:
    """Records the events and operations of a run, in the order of the calls."""

    def __init__(
        self, members: int = 3, datatype: str = "list", guarantees: SchemeGuarantees = CREEK
    ) -> None:
        self.now_us = 0
        self.guarantees = guarantees
        self.datatype = datatype
        self.incarnations: list[list[_Incarnation]] = [[_Incarnation(0, 0)] for _ in range(members)]
        self.requests: dict[Dot, Request] = {}
        self.records: dict[tuple[Dot, int], OperationRecord] = {}
        self.decided_batches: list[tuple[Dot, ...]] = []
        self.promised_replicas: set[int] = set()
        self.is_clock_stopped = False
        """True if events have the same time, as those of a recovery do."""

    # --- events ----------------------------------------------------------------------------------

    def invoke_weak(self, replica: int, name: str, *arguments: object, session: int = 0) -> Dot:
        return self._invoke(replica, Operation(name, arguments), False, session)

    def invoke_strong(self, replica: int, name: str, *arguments: object, session: int = 0) -> Dot:
        return self._invoke(replica, Operation(name, arguments), True, session)

    def cast_noop(self, replica: int) -> Dot:
        """Cast a no-op of the replica itself, without a client."""
        dot = self.invoke_strong(replica, NOOP.name)
        del self.records[dot, self._current(replica).incarnation]
        return dot

    def rb_deliver(self, dot: Dot, *replicas: int) -> None:
        """RB-deliver a request at these replicas, or at all that lack it."""
        for replica in replicas or range(len(self.incarnations)):
            current = self._current(replica)
            if current.crashed_us is None and dot not in current.received:
                self.log(replica, RbDelivered(dot))
                self._receive(current, dot)

    def decide(self, *dots: Dot) -> None:
        """Decide this batch in the next instance, by the votes of all replicas that can vote."""
        voters = [each for each in range(len(self.incarnations)) if self._can_vote(each, dots)]
        for replica in voters:
            if replica not in self.promised_replicas:
                self.promised_replicas.add(replica)
                self.log(replica, BallotPromised(BALLOT, 0, 0, ()))
        for replica in voters:
            self.log(replica, Voted(BALLOT, len(self.decided_batches), dots))
        self.decided_batches.append(dots)

    def cab_deliver(self, *replicas: int) -> None:
        """CAB-deliver every decided instance at these replicas, or at all."""
        for replica in replicas or range(len(self.incarnations)):
            current = self._current(replica)
            while current.crashed_us is None and current.instance < len(self.decided_batches):
                cut: list[Dot] = []
                for dot in self.decided_batches[current.instance]:
                    if not self.requests[dot].strong:
                        cut.append(dot)
                        continue
                    self.log(replica, CabDelivered(dot, current.instance))
                    self._commit(replica, dot, cut)
                current.instance += 1

    def respond(
        self, dot: Dot, kind: ResponseKind = ResponseKind.TENTATIVE, outcome: Outcome | None = None
    ) -> None:
        """Record a response, by default with the outcome of the replica's current order."""
        current = self._current(dot.replica)
        order = current.committed
        if kind is ResponseKind.TENTATIVE:
            order = current.committed + current.tentative
        record = self.records[dot, current.incarnation]
        outcome = outcome or self._outcome(order, dot)
        observed = None
        if kind is ResponseKind.TENTATIVE:
            stable = min(current.checkpoint_length, order.index(dot))
            observed = ObservedOrder(stable, tuple(order[stable : order.index(dot)]))
        first = record.tentative
        changed = kind is ResponseKind.FINAL and first is not None and first.outcome != outcome
        response = ResponseRecord(self._tick(), kind, outcome, changed, observed)
        responses = (*record.responses, response)
        self.records[dot, current.incarnation] = msgspec.structs.replace(
            record, responses=responses
        )

    def crash(self, replica: int) -> None:
        self._current(replica).crashed_us = self._tick()

    def restart(self, replica: int, lost_requests: int = 0, checkpoint_instances: int = 0) -> None:
        """Recover all but the last `lost_requests`, and some instances from a checkpoint.

        The events of the lost requests count as lost if no other event follows them.
        """
        old = self._current(replica)
        recovered = len(old.received) - lost_requests
        lost = old.received[recovered:]
        while (
            old.lost_event_count < len(lost)
            and _received_id(old.events[-1 - old.lost_event_count]) in lost
        ):
            old.lost_event_count += 1
        new = _Incarnation(old.incarnation + 1, self._tick())
        self.incarnations[replica].append(new)
        self.is_clock_stopped = True
        if checkpoint_instances:
            self.install_checkpoint(replica, checkpoint_instances)
        for dot in old.received[:recovered]:
            if dot not in new.received:
                self.rb_deliver(dot, replica)
        decided, self.decided_batches = self.decided_batches, self.decided_batches[: old.instance]
        self.cab_deliver(replica)
        self.decided_batches = decided
        self.is_clock_stopped = False

    def install_checkpoint(self, replica: int, instances: int) -> None:
        """Install a checkpoint of the first `instances`."""
        current = self._current(replica)
        all_incarnations = [each for incarnations in self.incarnations for each in incarnations]
        source = max(all_incarnations, key=lambda each: each.instance)
        last = {batch[-1] for batch in self.decided_batches[:instances]}
        length = 1 + max(source.committed.index(dot) for dot in last)
        prefix = source.committed[:length]
        self.log(replica, CheckpointInstalled(instances, length, DotSet(prefix).freeze()))
        current.received += [dot for dot in prefix if dot not in current.received]
        current.tentative = [dot for dot in current.tentative if dot not in prefix]
        current.committed = list(prefix)
        current.context.update(DotSet(prefix))
        current.instance, current.checkpoint_length = instances, length

    def delivered_instances(self, replica: int) -> int:
        """Return the number of instances that the replica has delivered."""
        return self._current(replica).instance

    def catch_up(self, replica: int) -> None:
        """Deliver all requests at a majority, and decide the undecided ones of the replica."""
        members = len(self.incarnations)
        for each in (*range(replica, replica + members // 2 + 1), *self.guarantees.voters):
            for dot in sorted(
                {dot for current in self.incarnations for dot in current[-1].received}
            ):
                self.rb_deliver(dot, each % members)
            self.cab_deliver(each % members)
        decided = {dot for batch in self.decided_batches for dot in batch}
        undecided = [dot for dot in self._current(replica).received if dot not in decided]
        if strong := [dot for dot in undecided if self.requests[dot].strong]:
            self.decide(*strong)
        self.cab_deliver(replica)

    def quiesce(self) -> None:
        """Deliver and commit all requests at all replicas, and send all missing responses."""
        for replica in range(len(self.incarnations)):
            self.catch_up(replica)
        if any(current[-1].tentative for current in self.incarnations):
            noop = self.cast_noop(0)
            self.rb_deliver(noop)
            self.decide(noop)
            self.cab_deliver()
        for (dot, incarnation), record in sorted(self.records.items()):
            if incarnation == self._current(dot.replica).incarnation:
                strong = record.strong or not self.guarantees.tentative
                if strong and record.stable is None:
                    self.respond(dot, ResponseKind.STABLE)
                elif not strong and record.final is None:
                    if not record.responses:
                        self.respond(dot)
                    self.respond(dot, ResponseKind.FINAL)

    def log(self, replica: int, event: Event) -> None:
        """Append any event to the log of a replica."""
        self._current(replica).events.append(LoggedEvent(self._tick(), event))

    # --- history ---------------------------------------------------------------------------------

    def history(self, quiescent: bool = True) -> History:
        return History(
            config={"seed": 1},
            datatype=self.datatype,
            members=tuple(range(len(self.incarnations))),
            guarantees=self.guarantees,
            quiescent=quiescent,
            operations=tuple(self.records.values()),
            logs=tuple(
                ReplicaLog(
                    replica=replica,
                    incarnation=each.incarnation,
                    started_us=each.started_us,
                    crashed_us=each.crashed_us,
                    events=tuple(each.events),
                    visible_count=len(each.events) - each.lost_event_count,
                )
                for replica, incarnations in enumerate(self.incarnations)
                for each in incarnations
            ),
            final_states=tuple(
                self._final_state(replica, incarnations[-1])
                for replica, incarnations in enumerate(self.incarnations)
                if incarnations[-1].crashed_us is None
            ),
        )

    def _final_state(self, replica: int, current: _Incarnation) -> FinalState:
        machine = get_datatype(self.datatype).sequential()
        for dot in current.committed + current.tentative:
            machine.apply(self.requests[dot])
        return FinalState(
            replica=replica,
            first=current.checkpoint_length,
            committed=tuple(current.committed[current.checkpoint_length :]),
            tentative=tuple(current.tentative),
            state=tuple(machine.state.items()),
        )

    # --- abridged Algorithm 1 --------------------------------------------------------------------

    def _current(self, replica: int) -> _Incarnation:
        return self.incarnations[replica][-1]

    def _can_vote(self, replica: int, dots: tuple[Dot, ...]) -> bool:
        current = self._current(replica)
        contexts = (self.requests[dot].context for dot in dots if dot in self.requests)
        return (
            current.crashed_us is None
            and replica in (self.guarantees.voters or range(len(self.incarnations)))
            and all(dot in current.received for dot in dots)
            and all(each is None or not current.context.missing(each) for each in contexts)
        )

    def _tick(self) -> int:
        if not self.is_clock_stopped:
            self.now_us += 10
        return self.now_us

    def _invoke(self, replica: int, operation: Operation, strong: bool, session: int) -> Dot:
        current = self._current(replica)
        dot = Dot(
            replica,
            1 + max((each.event for each in current.received if each[0] == replica), default=0),
        )
        context = current.context.freeze() if strong else None
        request = Request(self._tick(), dot, operation, strong, context)
        if not self.guarantees.contexts:
            request = msgspec.structs.replace(request, strong=True, context=Dots())
        self.requests[dot] = request
        self.records[dot, current.incarnation] = OperationRecord(
            session=session,
            replica=replica,
            incarnation=current.incarnation,
            id=dot,
            operation=operation,
            strong=strong,
            invoked_us=self.now_us,
        )
        current.events.append(LoggedEvent(self.now_us, RbCast(request)))
        self._receive(current, dot)
        return dot

    def _receive(self, current: _Incarnation, dot: Dot) -> None:
        current.received.append(dot)
        current.tentative = sorted(
            [*current.tentative, dot], key=lambda each: self.requests[each].key
        )
        if not self.requests[dot].strong:
            current.context.add(dot)

    def _commit(self, replica: int, dot: Dot, cut: Sequence[Dot] = ()) -> None:
        current = self._current(replica)
        context = self.requests[dot].context
        assert context is not None
        in_cut = [
            weak
            for weak in current.tentative
            if not self.requests[weak].strong
            and any(weak.replica == last.replica and weak.event <= last.event for last in cut)
        ]
        extension = [each for each in current.tentative if each in context or each in in_cut]
        for each in [*extension, dot]:
            self.log(replica, Committed(each, len(current.committed)))
            current.committed.append(each)
            if each in current.tentative:
                current.tentative.remove(each)
        current.context.add(dot)

    def _outcome(self, order: list[Dot], dot: Dot) -> Outcome:
        machine = get_datatype(self.datatype).sequential()
        outcomes = {each: machine.apply(self.requests[each]) for each in order}
        return outcomes[dot]


def _received_id(logged: LoggedEvent) -> Dot | None:
    """Return the request that the replica received by this event, or None."""
    match logged.event:
        case RbCast(request=request):
            return request.id
        case RbDelivered(id=dot):
            return dot
        case _:
            return None


def two_delivered_requests() -> tuple[HistoryBuilder, Dot, Dot]:
    """Return a run with two strong requests that all replicas deliver, and their identifiers."""
    builder = HistoryBuilder()
    one, two = builder.invoke_strong(0, "append", 1), builder.invoke_strong(1, "append", 2)
    for dot in (one, two):
        builder.rb_deliver(dot)
        builder.decide(dot)
    builder.cab_deliver()
    return builder, one, two


def extended_run(*cut: Dot) -> tuple[HistoryBuilder, Dot]:
    """Return a run in which a decided cut extends the context of a strong request, and the request.

    Replica 2 issues the strong request before it receives any of the weak ones: 0.1, 0.2 and 1.1,
    which are earlier, and 0.3, which is later.
    """
    builder = HistoryBuilder()
    weak = [builder.invoke_weak(each, "append", each) for each in (0, 1, 0)]
    strong = builder.invoke_strong(2, "get_all")
    for dot in (*weak, builder.invoke_weak(0, "append", 3), strong):
        builder.rb_deliver(dot)
    builder.decide(*cut, strong)
    builder.cab_deliver()
    return builder, strong


def typical_run() -> HistoryBuilder:
    """Return a legal run with weak and strong operations, a checkpoint and a lost request."""
    builder = HistoryBuilder()
    first = builder.invoke_weak(0, "append", "a")
    builder.respond(first)
    second = builder.invoke_strong(1, "append", "b", session=1)
    builder.respond(second)
    builder.rb_deliver(first)
    builder.rb_deliver(second)
    builder.decide(second)
    builder.cab_deliver()
    builder.respond(second, ResponseKind.STABLE)
    third = builder.invoke_strong(0, "duplicate")
    builder.rb_deliver(third)
    builder.decide(third)
    builder.cab_deliver(0, 1)
    builder.respond(third, ResponseKind.STABLE)
    builder.invoke_weak(2, "append", "lost", session=2)
    builder.crash(2)
    builder.restart(2, lost_requests=1, checkpoint_instances=1)
    fourth = builder.invoke_weak(2, "append", "c", session=2)
    builder.respond(fourth)
    builder.quiesce()
    return builder


def random_run(seed: int, guarantees: SchemeGuarantees = CREEK) -> HistoryBuilder:
    """Return a random legal run with lost requests, checkpoints and lagging replicas."""
    random = Random(seed)
    builder = HistoryBuilder(random.randint(1, 4), random.choice(sorted(DATATYPES)), guarantees)
    for session in range(random.randint(1, 30)):
        replica = random.randrange(len(builder.incarnations))
        operation = sample_operation(builder.datatype, random)
        invoke = builder.invoke_strong if random.random() < 0.4 else builder.invoke_weak
        dot = invoke(replica, operation.name, *operation.arguments, session=session)
        step = random.random()
        if step < 0.15:
            builder.crash(replica)
            instances = random.randint(0, builder.delivered_instances(replica))
            builder.restart(replica, lost_requests=1, checkpoint_instances=instances)
            continue
        if guarantees.tentative:
            builder.respond(dot)
        if step < 0.5:
            builder.catch_up(random.randrange(len(builder.incarnations)))
        elif step < 0.7:
            builder.quiesce()
    builder.quiesce()
    return builder


# --- modified histories ------------------------------------------------------------------------


def with_memory_durability(history: History) -> History:
    """Return the history of a run whose tentative responses did not wait for the disk."""
    return msgspec.structs.replace(history, config={**history.config, "durability": "memory"})


def with_operation(
    history: History, dot: Dot, change: Callable[[OperationRecord], OperationRecord]
) -> History:
    operations = tuple(change(each) if each.id == dot else each for each in history.operations)
    return msgspec.structs.replace(history, operations=operations)


def with_event(
    history: History, replica: int, old: Event, new: Event | None, incarnation: int = 0
) -> History:
    """Replace `old` by `new` in a log, or remove it if `new` is None."""

    def change(log: ReplicaLog) -> ReplicaLog:
        if (log.replica, log.incarnation) != (replica, incarnation):
            return log
        assert any(each.event == old for each in log.events), f"no {old} to change"
        events = [
            LoggedEvent(each.at_us, new if each.event == old and new is not None else each.event)
            for each in log.events
            if each.event != old or new is not None
        ]
        return msgspec.structs.replace(log, events=tuple(events))

    return msgspec.structs.replace(history, logs=tuple(change(log) for log in history.logs))


def with_final_state(
    history: History, replica: int, change: Callable[[FinalState], FinalState]
) -> History:
    finals = tuple(
        change(each) if each.replica == replica else each for each in history.final_states
    )
    return msgspec.structs.replace(history, final_states=finals)


# --- assertions --------------------------------------------------------------------------------


def assert_ok(check: Callable[[RunIndex], Verdict], history: History) -> None:
    verdict = check(RunIndex(history))
    assert isinstance(verdict, Ok), verdict.describe()


def assert_illegal(check: Callable[[RunIndex], Verdict], history: History, text: str) -> Illegal:
    verdict = check(RunIndex(history))
    assert isinstance(verdict, Illegal), verdict
    assert text in verdict.message, verdict.describe()
    assert len(verdict.counterexample) <= 6
    assert verdict.describe().startswith(f"ILLEGAL  {verdict.checker}: ")
    return verdict
