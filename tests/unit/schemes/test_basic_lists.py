"""Comparison of `BasicReplica`'s incremental lists with Algorithm 1 as printed.

The model below rebuilds every list at every step and copies the state for every execution. Replica
and model get the same random RB-deliveries, CAB-deliveries, invocations and execution steps. They
must agree on every list, every causal context, every predicate and every response.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction
from creekdb.protocol.effects import (
    CabDelivered,
    Effects,
    RbCast,
    RbDelivered,
    ResponseKind,
    Task,
    TaskKind,
)
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import Cast as CastMessage
from creekdb.protocol.messages import Decisions
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.protocol.settings import Settings
from creekdb.schemes.basic import BasicReplica
from tests.unit.protocol.strategies import frozen_dots

APPEND_LOG = DataType("journal")


@APPEND_LOG.operation
def append(tx: Transaction, key: str, value: int) -> Any:
    tx.put(key, (*tx.get(key, ()), value))
    return tx.get(key)


class AlgorithmOne:
    """Literal transcription of lines 4-76 for replica 0."""

    def __init__(self) -> None:
        self.db: dict[str, tuple[int, ...]] = {}
        self.undo_log: list[dict[str, tuple[int, ...]]] = []
        self.committed: list[Request] = []
        self.tentative: list[Request] = []
        self.causal_ctx: set[Dot] = set()
        self.executed: list[Request] = []
        self.to_be_executed: list[Request] = []
        self.to_be_rolled_back: list[Request] = []
        self.reqs_awaiting_resp: dict[Dot, Outcome | None] = {}
        self.responses: list[tuple[Dot, ResponseKind, Outcome]] = []

    def check_dep(self, id: Dot) -> bool:
        matches = [x for x in self.committed + self.tentative if x.id == id]
        if not matches:
            return False
        assert matches[0].context is not None
        return set(matches[0].context) <= self.causal_ctx

    def context_of(self, r: Request) -> set[Dot]:
        return self.causal_ctx - {x.id for x in self.tentative if r.key < x.key}

    def invoke(self, r: Request) -> None:
        self.insert(r)
        self.reqs_awaiting_resp[r.id] = None

    def insert(self, r: Request) -> None:
        if not r.strong:
            self.causal_ctx = self.causal_ctx | {r.id}
        previous = [x for x in self.tentative if x.key < r.key]
        subsequent = [x for x in self.tentative if r.key < x.key]
        self.tentative = [*previous, r, *subsequent]
        self.adjust_execution(self.committed + self.tentative)

    def cab_deliver(self, id: Dot) -> None:
        (r,) = [x for x in self.tentative if x.id == id]
        self.causal_ctx = self.causal_ctx | {r.id}
        self.commit(r)

    def adjust_execution(self, new_order: list[Request]) -> None:
        in_order: list[Request] = []
        for old, new in zip(self.executed, new_order, strict=False):
            if old != new:
                break
            in_order.append(old)
        out_of_order = [x for x in self.executed if x not in in_order]
        self.executed = in_order
        self.to_be_executed = [x for x in new_order if x not in self.executed]
        self.to_be_rolled_back = self.to_be_rolled_back + out_of_order[::-1]

    def commit(self, r: Request) -> None:
        assert r.context is not None
        committed_ext = [x for x in self.tentative if x.id in r.context]
        new_tentative = [x for x in self.tentative if x not in committed_ext and x != r]
        self.committed = [*self.committed, *committed_ext, r]
        self.tentative = new_tentative
        self.adjust_execution(self.committed + self.tentative)
        if r.id in self.reqs_awaiting_resp and r in self.executed:
            stable_response = self.reqs_awaiting_resp.pop(r.id)
            assert stable_response is not None
            self.responses.append((r.id, ResponseKind.STABLE, stable_response))

    def step(self) -> TaskKind | None:
        if self.to_be_rolled_back:
            self.to_be_rolled_back = self.to_be_rolled_back[1:]
            self.db = self.undo_log.pop()
            return TaskKind.ROLLBACK
        if not self.to_be_executed:
            return None
        head, *tail = self.to_be_executed
        response = self.execute(head)
        if head.id in self.reqs_awaiting_resp:
            if not head.strong:
                self.responses.append((head.id, ResponseKind.TENTATIVE, response))
                del self.reqs_awaiting_resp[head.id]
            elif head in self.tentative:
                self.reqs_awaiting_resp[head.id] = response
                self.responses.append((head.id, ResponseKind.TENTATIVE, response))
            else:
                self.responses.append((head.id, ResponseKind.STABLE, response))
                del self.reqs_awaiting_resp[head.id]
        self.executed = [*self.executed, head]
        self.to_be_executed = tail
        return TaskKind.EXECUTE

    def execute(self, r: Request) -> Outcome:
        self.undo_log.append(dict(self.db))
        key, value = r.operation.arguments
        self.db = {**self.db, key: (*self.db.get(key, ()), value)}
        return Outcome(self.db[key])


class ReplicaAndModel:
    """A replica, and a model that receives the replica's deliveries."""

    def __init__(self) -> None:
        self.replica = BasicReplica(0, Settings(members=(0, 1, 2)), APPEND_LOG)
        self.model = AlgorithmOne()
        self.responses: list[tuple[Dot, ResponseKind, Outcome]] = []
        self.task: Task | None = None
        self.issued: dict[int, int] = {1: 0, 2: 0}
        self.requests: dict[Dot, Request] = {}
        self.decided: list[Dot] = []
        self.values = 0

    # --- inputs -------------------------------------------------------------------------------

    def invoke(self, key: str, strong: bool, now: int) -> Dot:
        id = self.replica.invoke(self._operation(key), strong, 0, now)
        self._record_effects(self.replica.take_effects())
        return id

    def rb_deliver(self, replica: int, key: str, timestamp: int, context: set[Dot] | None) -> None:
        """Deliver a request, which may be held back for its context."""
        self.issued[replica] += 1
        request = Request(
            timestamp,
            Dot(replica, self.issued[replica]),
            self._operation(key),
            context is not None,
            None if context is None else frozen_dots(sorted(context)),
        )
        self.requests[request.id] = request
        self.replica.receive(CastMessage((request,)), replica, 0)
        self._record_effects(self.replica.take_effects())

    def decide(self, id: Dot) -> None:
        self.decided.append(id)
        self.replica.receive(Decisions(len(self.decided) - 1, ((id,),)), 1, 0)
        self._record_effects(self.replica.take_effects())

    def step(self) -> None:
        """Make one transition of lines 58-76, if one is enabled."""
        if self.task is None:
            assert self.model.step() is None
            return
        task, self.task = self.task, None
        overtaken = self.replica.view.probes.counts.get(Probe.EXECUTION_OVERTAKEN, 0)
        self.replica.completed(task, self.replica.run(task), 0)
        self._record_effects(self.replica.take_effects())
        if self.replica.view.probes.counts.get(Probe.EXECUTION_OVERTAKEN, 0) > overtaken:
            assert task.kind is TaskKind.EXECUTE
        else:
            assert self.model.step() is task.kind

    def _operation(self, key: str) -> Operation:
        self.values += 1
        return Operation("append", (key, self.values))

    def _record_effects(self, effects: Effects) -> None:
        for event in effects.events:
            match event:
                case RbCast(request=request):
                    self.requests[request.id] = request
                    if request.strong:
                        assert request.context is not None
                        assert set(request.context) == self.model.context_of(request)
                    self.model.invoke(request)
                case RbDelivered(id=id):
                    self.model.insert(self.requests[id])
                case CabDelivered(id=id):
                    assert id == self._next_decided()
                    assert self.model.check_dep(id)
                    self.model.cab_deliver(id)
                case _:
                    pass
        self.responses += [  # as defined by the paper
            (each.id, each.kind, each.outcome)
            for each in effects.respond
            if each.kind is not ResponseKind.FINAL
        ]
        for task in effects.tasks:
            assert self.task is None, "a sequential replica issues one task at a time"
            self.task = task

    def _next_decided(self) -> Dot | None:
        """Return the first decided identifier that is not committed."""
        committed = {x.id for x in self.model.committed}
        return next((id for id in self.decided if id not in committed), None)

    # --- comparison ---------------------------------------------------------------------------

    def compare(self) -> None:
        replica, model = self.replica, self.model
        first = replica._order.first_position
        assert replica.view.committed_length() == len(model.committed)
        assert list(replica.view.committed_ids()) == [x.id for x in model.committed[first:]]
        assert list(replica.view.tentative_ids()) == [x.id for x in model.tentative]
        assert replica._execution.executed == model.executed[first:]
        assert list(replica._execution.to_be_rolled_back) == model.to_be_rolled_back
        assert replica._execution.next_to_execute() == next(iter(model.to_be_executed), None)
        assert set(replica._ordering.causal_context) == model.causal_ctx
        assert set(replica._responses.awaiting) == set(model.reqs_awaiting_resp)
        assert self.responses == model.responses
        assert replica.view.state() == model.db
        for x in [*model.committed, *model.tentative]:
            if x.strong:
                assert (replica._ordering.missing_dependency(x.id) is None) == model.check_dep(x.id)
        blocked = self._next_decided()
        assert blocked is None or not model.check_dep(blocked)


def context_candidates(pair: ReplicaAndModel) -> list[Dot]:
    """Return the identifiers that a context may hold: those of weak or committed requests."""
    model = pair.model
    known = [x.id for x in model.tentative if not x.strong] + [x.id for x in model.committed]
    return sorted(known)


steps = st.lists(
    st.sampled_from(["invoke", "rb", "rb", "cab", "step", "step", "step"]), min_size=25, max_size=60
)


@settings(max_examples=100)
@given(st.data())
def test_every_step_gives_the_lists_and_responses_of_the_paper(data: st.DataObject) -> None:
    pair = ReplicaAndModel()
    undecided: list[Dot] = []
    awaited: set[Dot] = set()
    """Identifiers that a context holds before their requests are issued. These must be weak."""
    now = 100
    for step in data.draw(steps):
        key = data.draw(st.sampled_from("ab"))
        now += 3
        if step == "invoke":
            strong = data.draw(st.booleans())
            id = pair.invoke(key, strong, now)
            if strong:
                undecided.append(id)
        elif step == "rb":
            replica = data.draw(st.integers(1, 2))
            id = Dot(replica, pair.issued[replica] + 1)
            context: set[Dot] | None = None
            if id not in awaited and data.draw(st.booleans()):
                known = context_candidates(pair)
                context = data.draw(st.sets(st.sampled_from(known))) if known else set()
                if data.draw(st.integers(0, 4)) == 0:
                    other = 3 - replica
                    ahead = Dot(other, pair.issued[other] + 1)
                    awaited.add(ahead)
                    context.add(ahead)
                undecided.append(id)
            # The timestamps are coarse, so that ties are common.
            timestamp = now // 10 * 10 + data.draw(st.sampled_from((-20, -10, 0, 0, 10)))
            pair.rb_deliver(replica, key, timestamp, context)
        elif step == "cab" and undecided:
            id = data.draw(st.sampled_from(undecided))
            if data.draw(st.integers(0, 5)):
                undecided.remove(id)
            pair.decide(id)
        elif step == "step":
            pair.step()
        pair.compare()
    while pair.task is not None:
        pair.step()
    pair.compare()
    assert pair.replica.view.is_idle()


def test_a_long_run_agrees_after_its_prefix_is_truncated() -> None:
    pair = ReplicaAndModel()
    for round_ in range(120):
        pair.rb_deliver(1, "a", 100 + round_ * 2, None)
        pair.rb_deliver(2, "b", 99 + round_ * 2, set(context_candidates(pair)))
        pair.step()
        pair.decide(Dot(2, round_ + 1))
        while pair.task is not None:
            pair.step()
    pair.compare()
    assert pair.replica._order.first_position > 64


def test_a_strong_request_executed_in_its_final_position_gets_its_stable_response_at_commit() -> (
    None
):
    pair = ReplicaAndModel()
    pair.invoke("a", True, 100)
    pair.step()
    pair.decide(Dot(0, 1))
    pair.compare()
    assert [kind for _, kind, _ in pair.responses] == [ResponseKind.TENTATIVE, ResponseKind.STABLE]
    assert pair.replica.view.probes.counts[Probe.STABLE_FROM_COMMIT] == 1


def test_a_strong_request_committed_before_execution_gets_its_stable_response_at_execution() -> (
    None
):
    pair = ReplicaAndModel()
    pair.invoke("a", True, 100)
    pair.decide(Dot(0, 1))
    pair.step()
    pair.compare()
    assert [kind for _, kind, _ in pair.responses] == [ResponseKind.STABLE]
    assert pair.replica.view.probes.counts[Probe.STABLE_FROM_EXECUTION] == 1


def test_a_reexecuted_strong_request_gets_another_tentative_response() -> None:
    pair = ReplicaAndModel()
    pair.invoke("a", True, 100)
    pair.step()
    pair.rb_deliver(1, "a", 50, None)
    for _ in range(3):
        pair.step()
    pair.compare()
    assert [(kind, outcome.value) for _, kind, outcome in pair.responses] == [
        (ResponseKind.TENTATIVE, (1,)),
        (ResponseKind.TENTATIVE, (2, 1)),
    ]
    assert pair.replica.view.probes.counts[Probe.TENTATIVE_AGAIN] == 1


def test_an_overtaken_execution_is_discarded() -> None:
    pair = ReplicaAndModel()
    pair.invoke("a", False, 100)
    pair.rb_deliver(1, "a", 50, None)
    pair.step()
    assert pair.replica.view.probes.counts[Probe.EXECUTION_OVERTAKEN] == 1
    assert pair.responses == []
    pair.step()
    pair.step()
    pair.compare()
    assert pair.responses == [(Dot(0, 1), ResponseKind.TENTATIVE, Outcome((2, 1)))]


@pytest.mark.parametrize("context", [Dots(), Dots({1: (1, 2)})])
def test_a_cab_delivery_event_carries_its_instance(context: Dots) -> None:
    pair = ReplicaAndModel()
    pair.rb_deliver(1, "a", 50, None)
    pair.rb_deliver(2, "a", 60, set(context))
    pair.replica.receive(Decisions(0, ((Dot(2, 1),),)), 1, 0)
    events = pair.replica.take_effects().events
    assert CabDelivered(Dot(2, 1), 0) in events
