"""The incremental lists of `BasicReplica` against Algorithm 1 as it is printed.

The model below rebuilds every list at every step and keeps a copy of the state for every execution.
Both get the same random RB-deliveries, CAB-deliveries, invocations and execution steps; they must
agree on every list, every causal context, every predicate and every answer.
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

JOURNAL = DataType("journal")


@JOURNAL.operation
def append(tx: Transaction, key: str, value: int) -> Any:
    tx.put(key, (*tx.get(key, ()), value))
    return tx.get(key)


class AlgorithmOne:
    """Lines 4-76 for replica 0, line by line, with nothing clever in it."""

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
        self.answers: list[tuple[Dot, ResponseKind, Outcome]] = []

    def check_dep(self, id: Dot) -> bool:
        found = [x for x in self.committed + self.tentative if x.id == id]
        if not found:
            return False
        assert found[0].context is not None
        return set(found[0].context) <= self.causal_ctx

    def context_of(self, r: Request) -> set[Dot]:
        return self.causal_ctx - {x.id for x in self.tentative if r.key < x.key}

    def invoke(self, r: Request) -> None:
        self.take_up(r)
        self.reqs_awaiting_resp[r.id] = None

    def take_up(self, r: Request) -> None:
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
        for mine, new in zip(self.executed, new_order, strict=False):
            if mine != new:
                break
            in_order.append(mine)
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
            answer = self.reqs_awaiting_resp.pop(r.id)
            assert answer is not None
            self.answers.append((r.id, ResponseKind.STABLE, answer))

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
                self.answers.append((head.id, ResponseKind.TENTATIVE, response))
                del self.reqs_awaiting_resp[head.id]
            elif head in self.tentative:
                self.reqs_awaiting_resp[head.id] = response
                self.answers.append((head.id, ResponseKind.TENTATIVE, response))
            else:
                self.answers.append((head.id, ResponseKind.STABLE, response))
                del self.reqs_awaiting_resp[head.id]
        self.executed = [*self.executed, head]
        self.to_be_executed = tail
        return TaskKind.EXECUTE

    def execute(self, r: Request) -> Outcome:
        self.undo_log.append(dict(self.db))
        key, value = r.operation.arguments
        self.db = {**self.db, key: (*self.db.get(key, ()), value)}
        return Outcome(self.db[key])


class Both:
    """The replica, and the model that is told what the replica delivered."""

    def __init__(self) -> None:
        self.replica = BasicReplica(0, Settings(members=(0, 1, 2)), JOURNAL)
        self.model = AlgorithmOne()
        self.answers: list[tuple[Dot, ResponseKind, Outcome]] = []
        self.task: Task | None = None
        self.issued: dict[int, int] = {1: 0, 2: 0}
        self.requests: dict[Dot, Request] = {}
        self.decided: list[Dot] = []
        self.values = 0

    # --- inputs -------------------------------------------------------------------------------

    def invoke(self, key: str, strong: bool, now: int) -> Dot:
        id = self.replica.invoke(self._operation(key), strong, 0, now)
        self._note(self.replica.take_effects())
        return id

    def rb_deliver(self, replica: int, key: str, timestamp: int, context: set[Dot] | None) -> None:
        """A request arrives; it may have to wait for its context."""
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
        self._note(self.replica.take_effects())

    def decide(self, id: Dot) -> None:
        self.decided.append(id)
        self.replica.receive(Decisions(len(self.decided) - 1, ((id,),)), 1, 0)
        self._note(self.replica.take_effects())

    def step(self) -> None:
        """One transition of lines 58-76, if one is enabled."""
        if self.task is None:
            assert self.model.step() is None
            return
        task, self.task = self.task, None
        overtaken = self.replica.probes.counts.get(Probe.EXECUTION_OVERTAKEN, 0)
        self.replica.completed(task, self.replica.run(task), 0)
        self._note(self.replica.take_effects())
        if self.replica.probes.counts.get(Probe.EXECUTION_OVERTAKEN, 0) > overtaken:
            assert task.kind is TaskKind.EXECUTE
        else:
            assert self.model.step() is task.kind

    def _operation(self, key: str) -> Operation:
        self.values += 1
        return Operation("append", (key, self.values))

    def _note(self, effects: Effects) -> None:
        for event in effects.events:
            match event:
                case RbCast(request=request):
                    self.requests[request.id] = request
                    if request.strong:
                        assert request.context is not None
                        assert set(request.context) == self.model.context_of(request)
                    self.model.invoke(request)
                case RbDelivered(id=id):
                    self.model.take_up(self.requests[id])
                case CabDelivered(id=id):
                    assert id == self._next_decided()
                    assert self.model.check_dep(id)
                    self.model.cab_deliver(id)
                case _:
                    pass
        self.answers += [  # the paper's
            (each.id, each.kind, each.outcome)
            for each in effects.respond
            if each.kind is not ResponseKind.FINAL
        ]
        for task in effects.tasks:
            assert self.task is None, "a sequential replica does one thing at a time"
            self.task = task

    def _next_decided(self) -> Dot | None:
        """The first decided identifier that is not committed."""
        committed = {x.id for x in self.model.committed}
        return next((id for id in self.decided if id not in committed), None)

    # --- comparison ---------------------------------------------------------------------------

    def compare(self) -> None:
        replica, model = self.replica, self.model
        first = replica._order.first_position
        assert replica.committed_length() == len(model.committed)
        assert list(replica.committed_ids()) == [x.id for x in model.committed[first:]]
        assert list(replica.tentative_ids()) == [x.id for x in model.tentative]
        assert replica._executed == model.executed[first:]
        assert list(replica._to_be_rolled_back) == model.to_be_rolled_back
        assert replica._next_to_execute() == next(iter(model.to_be_executed), None)
        assert set(replica._causal_context) == model.causal_ctx
        assert set(replica._responses.awaiting) == set(model.reqs_awaiting_resp)
        assert self.answers == model.answers
        assert replica.state() == model.db
        for x in [*model.committed, *model.tentative]:
            if x.strong:
                assert (replica.missing_dependency(x.id) is None) == model.check_dep(x.id)
        blocked = self._next_decided()
        assert blocked is None or not model.check_dep(blocked)


def weak_ids(both: Both) -> list[Dot]:
    """Identifiers that a context may hold: of weak requests, and of committed ones."""
    model = both.model
    known = [x.id for x in model.tentative if not x.strong] + [x.id for x in model.committed]
    return sorted(known)


steps = st.lists(
    st.sampled_from(["invoke", "rb", "rb", "cab", "step", "step", "step"]), min_size=25, max_size=60
)


@settings(max_examples=100)
@given(st.data())
def test_every_step_leaves_the_lists_and_answers_of_the_paper(data: st.DataObject) -> None:
    both = Both()
    undecided: list[Dot] = []
    awaited: set[Dot] = set()
    """Dots that some context holds before they were issued: they must turn out weak."""
    now = 100
    for step in data.draw(steps):
        key = data.draw(st.sampled_from("ab"))
        now += 3
        if step == "invoke":
            strong = data.draw(st.booleans())
            id = both.invoke(key, strong, now)
            if strong:
                undecided.append(id)
        elif step == "rb":
            replica = data.draw(st.integers(1, 2))
            id = Dot(replica, both.issued[replica] + 1)
            context: set[Dot] | None = None
            if id not in awaited and data.draw(st.booleans()):
                known = weak_ids(both)
                context = data.draw(st.sets(st.sampled_from(known))) if known else set()
                if data.draw(st.integers(0, 4)) == 0:
                    other = 3 - replica
                    ahead = Dot(other, both.issued[other] + 1)
                    awaited.add(ahead)
                    context.add(ahead)
                undecided.append(id)
            # Coarse, so that ties are common.
            timestamp = now // 10 * 10 + data.draw(st.sampled_from((-20, -10, 0, 0, 10)))
            both.rb_deliver(replica, key, timestamp, context)
        elif step == "cab" and undecided:
            id = data.draw(st.sampled_from(undecided))
            if data.draw(st.integers(0, 5)):
                undecided.remove(id)
            both.decide(id)
        elif step == "step":
            both.step()
        both.compare()
    while both.task is not None:
        both.step()
    both.compare()
    assert both.replica.is_idle()


def test_a_long_run_agrees_also_after_its_beginning_was_summed_up() -> None:
    both = Both()
    for round_ in range(120):
        both.rb_deliver(1, "a", 100 + round_ * 2, None)
        both.rb_deliver(2, "b", 99 + round_ * 2, set(weak_ids(both)))
        both.step()
        both.decide(Dot(2, round_ + 1))
        while both.task is not None:
            both.step()
    both.compare()
    assert both.replica._order.first_position > 64


def test_a_strong_request_in_its_final_place_is_answered_from_commit() -> None:
    both = Both()
    both.invoke("a", True, 100)
    both.step()
    both.decide(Dot(0, 1))
    both.compare()
    assert [kind for _, kind, _ in both.answers] == [ResponseKind.TENTATIVE, ResponseKind.STABLE]
    assert both.replica.probes.counts[Probe.STABLE_FROM_COMMIT] == 1


def test_a_strong_request_that_is_committed_before_it_ran_is_answered_from_its_execution() -> None:
    both = Both()
    both.invoke("a", True, 100)
    both.decide(Dot(0, 1))
    both.step()
    both.compare()
    assert [kind for _, kind, _ in both.answers] == [ResponseKind.STABLE]
    assert both.replica.probes.counts[Probe.STABLE_FROM_EXECUTION] == 1


def test_a_strong_request_that_runs_again_gets_another_tentative_answer() -> None:
    both = Both()
    both.invoke("a", True, 100)
    both.step()
    both.rb_deliver(1, "a", 50, None)
    for _ in range(3):
        both.step()
    both.compare()
    assert [(kind, outcome.value) for _, kind, outcome in both.answers] == [
        (ResponseKind.TENTATIVE, (1,)),
        (ResponseKind.TENTATIVE, (2, 1)),
    ]
    assert both.replica.probes.counts[Probe.TENTATIVE_AGAIN] == 1


def test_an_execution_that_was_overtaken_leaves_no_trace() -> None:
    both = Both()
    both.invoke("a", False, 100)
    both.rb_deliver(1, "a", 50, None)
    both.step()
    assert both.replica.probes.counts[Probe.EXECUTION_OVERTAKEN] == 1
    assert both.answers == []
    both.step()
    both.step()
    both.compare()
    assert both.answers == [(Dot(0, 1), ResponseKind.TENTATIVE, Outcome((2, 1)))]


@pytest.mark.parametrize("context", [Dots(), Dots({1: (1, 2)})])
def test_cab_delivery_tells_its_instance(context: Dots) -> None:
    both = Both()
    both.rb_deliver(1, "a", 50, None)
    both.rb_deliver(2, "a", 60, set(context))
    both.replica.receive(Decisions(0, ((Dot(2, 1),),)), 1, 0)
    events = both.replica.take_effects().events
    assert CabDelivered(Dot(2, 1), 0) in events
