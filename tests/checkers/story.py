"""Tells small histories, good by default and bad on request.

A `Story` is a toy Creek with one pair of hands: the test says who casts, who hears of it, what CAB
orders and who delivers. It keeps the lists of Algorithm 1 and logs what a replica would. To spoil a
history, `log` writes any event as it is, and the `with_…` functions edit a finished one.
"""

from collections.abc import Callable
from random import Random

import msgspec

from creekdb.checkers import Illegal, Ok, RunIndex, Verdict
from creekdb.datatypes import DATATYPES, get_datatype, sample_operation
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

BALLOT = Ballot(1, 0)
"""The one in which everything is decided."""

CREEK = SchemeGuarantees()
PRIMARY = SchemeGuarantees(voters=(0,), contexts=False, sequential=True)
"""Replica 0 orders each request for itself."""
STABLE_ONLY = SchemeGuarantees(contexts=False, tentative=False, sequential=True)
"""A state machine: everything is ordered, and then answered."""


class _Replica:
    """One incarnation."""

    def __init__(self, incarnation: int, started_us: int) -> None:
        self.incarnation = incarnation
        self.started_us = started_us
        self.crashed_us: int | None = None
        self.events: list[LoggedEvent] = []
        self.in_vain = 0
        """The last ones of them, which nobody could learn of."""
        self.known: list[Dot] = []
        self.context = DotSet()
        self.committed: list[Dot] = []
        self.tentative: list[Dot] = []
        self.instance = 0
        self.first = 0


class Story:
    def __init__(
        self, members: int = 3, datatype: str = "list", terms: SchemeGuarantees = CREEK
    ) -> None:
        self.now_us = 0
        self.terms = terms
        self.datatype = datatype
        self.incarnations: list[list[_Replica]] = [[_Replica(0, 0)] for _ in range(members)]
        self.requests: dict[Dot, Request] = {}
        self.records: dict[tuple[Dot, int], OperationRecord] = {}
        self.batches: list[tuple[Dot, ...]] = []
        self.promised: set[int] = set()
        self.standing_still = False
        """Whatever a replica recovers, it recovers at once."""

    # --- what happens ----------------------------------------------------------------------------

    def weak(self, replica: int, name: str, *arguments: object, session: int = 0) -> Dot:
        return self._invoke(replica, Operation(name, arguments), False, session)

    def strong(self, replica: int, name: str, *arguments: object, session: int = 0) -> Dot:
        return self._invoke(replica, Operation(name, arguments), True, session)

    def noop(self, replica: int) -> Dot:
        """Issued by the replica itself: no client waits for it."""
        dot = self.strong(replica, NOOP.name)
        del self.records[dot, self._at(replica).incarnation]
        return dot

    def gossip(self, dot: Dot, *replicas: int) -> None:
        """RB-delivery at these replicas, or at all that lack it."""
        for replica in replicas or range(len(self.incarnations)):
            mine = self._at(replica)
            if mine.crashed_us is None and dot not in mine.known:
                self.log(replica, RbDelivered(dot))
                self._learn(mine, dot)

    def order(self, *dots: Dot) -> None:
        """The next instance of consensus decides this batch, by the votes of all who can."""
        able = [each for each in range(len(self.incarnations)) if self._can_vote(each, dots)]
        for replica in able:
            if replica not in self.promised:
                self.promised.add(replica)
                self.log(replica, BallotPromised(BALLOT, 0, 0, ()))
        for replica in able:
            self.log(replica, Voted(BALLOT, len(self.batches), dots))
        self.batches.append(dots)

    def deliver(self, *replicas: int) -> None:
        """CAB-delivery of every decided instance at these replicas, or at all."""
        for replica in replicas or range(len(self.incarnations)):
            mine = self._at(replica)
            while mine.crashed_us is None and mine.instance < len(self.batches):
                for dot in self.batches[mine.instance]:
                    self.log(replica, CabDelivered(dot, mine.instance))
                    self._commit(replica, dot)
                mine.instance += 1

    def answer(
        self, dot: Dot, kind: ResponseKind = ResponseKind.TENTATIVE, outcome: Outcome | None = None
    ) -> None:
        mine = self._at(dot.replica)
        order = mine.committed
        if kind is ResponseKind.TENTATIVE:
            order = mine.committed + mine.tentative
        record = self.records[dot, mine.incarnation]
        said = outcome or self._outcome(order, dot)
        observed = None
        if kind is ResponseKind.TENTATIVE:
            settled = min(mine.first, order.index(dot))
            observed = ObservedOrder(settled, tuple(order[settled : order.index(dot)]))
        told = record.tentative
        changed = kind is ResponseKind.FINAL and told is not None and told.outcome != said
        answer = ResponseRecord(self._tick(), kind, said, changed, observed)
        answers = (*record.answers, answer)
        self.records[dot, mine.incarnation] = msgspec.structs.replace(record, answers=answers)

    def crash(self, replica: int) -> None:
        self._at(replica).crashed_us = self._tick()

    def restart(self, replica: int, lost: int = 0, checkpoint: int = 0) -> None:
        """Recover everything but the last `lost` requests; `checkpoint` instances are summed up.
        Unless it did anything after them, these were in vain."""
        old = self._at(replica)
        gone = old.known[len(old.known) - lost :]
        while old.in_vain < len(gone) and _brought(old.events[-1 - old.in_vain]) in gone:
            old.in_vain += 1
        new = _Replica(old.incarnation + 1, self._tick())
        self.incarnations[replica].append(new)
        self.standing_still = True
        if checkpoint:
            self.install(replica, checkpoint)
        for dot in old.known[: len(old.known) - lost]:
            if dot not in new.known:
                self.gossip(dot, replica)
        decided, self.batches = self.batches, self.batches[: old.instance]
        self.deliver(replica)
        self.batches = decided
        self.standing_still = False

    def install(self, replica: int, instances: int) -> None:
        """A checkpoint of the first instances."""
        mine = self._at(replica)
        everyone = [each for incarnations in self.incarnations for each in incarnations]
        source = max(everyone, key=lambda each: each.instance)
        last = {batch[-1] for batch in self.batches[:instances]}
        length = 1 + max(source.committed.index(dot) for dot in last)
        prefix = source.committed[:length]
        self.log(replica, CheckpointInstalled(instances, length, DotSet(prefix).freeze()))
        mine.known += [dot for dot in prefix if dot not in mine.known]
        mine.tentative = [dot for dot in mine.tentative if dot not in prefix]
        mine.committed = list(prefix)
        mine.context.update(DotSet(prefix))
        mine.instance, mine.first = instances, length

    def delivered(self, replica: int) -> int:
        """How many instances the replica has delivered."""
        return self._at(replica).instance

    def catch_up(self, replica: int) -> None:
        """A majority learns everything; one of it has CAB order what is not ordered yet."""
        members = len(self.incarnations)
        for each in (*range(replica, replica + members // 2 + 1), *self.terms.voters):
            for dot in sorted({dot for mine in self.incarnations for dot in mine[-1].known}):
                self.gossip(dot, each % members)
            self.deliver(each % members)
        decided = {dot for batch in self.batches for dot in batch}
        fresh = [dot for dot in self._at(replica).known if dot not in decided]
        if strong := [dot for dot in fresh if self.requests[dot].strong]:
            self.order(*strong)
        self.deliver(replica)

    def settle(self) -> None:
        """Everybody learns and orders everything, and answers what is left."""
        for replica in range(len(self.incarnations)):
            self.catch_up(replica)
        if any(mine[-1].tentative for mine in self.incarnations):
            noop = self.noop(0)
            self.gossip(noop)
            self.order(noop)
            self.deliver()
        for (dot, incarnation), record in sorted(self.records.items()):
            if incarnation == self._at(dot.replica).incarnation:
                strong = record.strong or not self.terms.tentative
                if strong and record.stable is None:
                    self.answer(dot, ResponseKind.STABLE)
                elif not strong and record.final is None:
                    if not record.answers:
                        self.answer(dot)
                    self.answer(dot, ResponseKind.FINAL)

    def log(self, replica: int, event: Event) -> None:
        self._at(replica).events.append(LoggedEvent(self._tick(), event))

    # --- the outcome -----------------------------------------------------------------------------

    def history(self, quiescent: bool = True) -> History:
        return History(
            config={"seed": 1},
            datatype=self.datatype,
            members=tuple(range(len(self.incarnations))),
            guarantees=self.terms,
            quiescent=quiescent,
            operations=tuple(self.records.values()),
            logs=tuple(
                ReplicaLog(
                    replica=replica,
                    incarnation=each.incarnation,
                    started_us=each.started_us,
                    crashed_us=each.crashed_us,
                    events=tuple(each.events),
                    visible_count=len(each.events) - each.in_vain,
                )
                for replica, incarnations in enumerate(self.incarnations)
                for each in incarnations
            ),
            final_states=tuple(
                self._final(replica, incarnations[-1])
                for replica, incarnations in enumerate(self.incarnations)
                if incarnations[-1].crashed_us is None
            ),
        )

    def _final(self, replica: int, mine: _Replica) -> FinalState:
        machine = get_datatype(self.datatype).sequential()
        for dot in mine.committed + mine.tentative:
            machine.apply(self.requests[dot])
        return FinalState(
            replica=replica,
            first=mine.first,
            committed=tuple(mine.committed[mine.first :]),
            tentative=tuple(mine.tentative),
            state=tuple(machine.state.items()),
        )

    # --- Algorithm 1 in short --------------------------------------------------------------------

    def _at(self, replica: int) -> _Replica:
        return self.incarnations[replica][-1]

    def _can_vote(self, replica: int, dots: tuple[Dot, ...]) -> bool:
        mine = self._at(replica)
        contexts = (self.requests[dot].context for dot in dots if dot in self.requests)
        return (
            mine.crashed_us is None
            and replica in (self.terms.voters or range(len(self.incarnations)))
            and all(dot in mine.known for dot in dots)
            and all(each is None or not mine.context.missing(each) for each in contexts)
        )

    def _tick(self) -> int:
        if not self.standing_still:
            self.now_us += 10
        return self.now_us

    def _invoke(self, replica: int, operation: Operation, strong: bool, session: int) -> Dot:
        mine = self._at(replica)
        dot = Dot(
            replica, 1 + max((each.event for each in mine.known if each[0] == replica), default=0)
        )
        context = mine.context.freeze() if strong else None
        request = Request(self._tick(), dot, operation, strong, context)
        if not self.terms.contexts:
            request = msgspec.structs.replace(request, strong=True, context=Dots())
        self.requests[dot] = request
        self.records[dot, mine.incarnation] = OperationRecord(
            session=session,
            replica=replica,
            incarnation=mine.incarnation,
            id=dot,
            operation=operation,
            strong=strong,
            invoked_us=self.now_us,
        )
        mine.events.append(LoggedEvent(self.now_us, RbCast(request)))
        self._learn(mine, dot)
        return dot

    def _learn(self, mine: _Replica, dot: Dot) -> None:
        mine.known.append(dot)
        mine.tentative = sorted([*mine.tentative, dot], key=lambda each: self.requests[each].key)
        if not self.requests[dot].strong:
            mine.context.add(dot)

    def _commit(self, replica: int, dot: Dot) -> None:
        mine = self._at(replica)
        context = self.requests[dot].context
        assert context is not None
        for each in [*(other for other in mine.tentative if other in context), dot]:
            self.log(replica, Committed(each, len(mine.committed)))
            mine.committed.append(each)
            if each in mine.tentative:
                mine.tentative.remove(each)
        mine.context.add(dot)

    def _outcome(self, order: list[Dot], dot: Dot) -> Outcome:
        machine = get_datatype(self.datatype).sequential()
        outcomes = {each: machine.apply(self.requests[each]) for each in order}
        return outcomes[dot]


def _brought(logged: LoggedEvent) -> Dot | None:
    """The request that was new with it."""
    match logged.event:
        case RbCast(request=request):
            return request.id
        case RbDelivered(id=dot):
            return dot
        case _:
            return None


def two_delivered() -> tuple[Story, Dot, Dot]:
    """Two strong requests, which all replicas deliver one after the other."""
    story = Story()
    one, two = story.strong(0, "append", 1), story.strong(1, "append", 2)
    for dot in (one, two):
        story.gossip(dot)
        story.order(dot)
    story.deliver()
    return story, one, two


def everyday() -> Story:
    """A bit of everything: weak and strong, a checkpoint, a crash that loses an unseen request."""
    story = Story()
    first = story.weak(0, "append", "a")
    story.answer(first)
    second = story.strong(1, "append", "b", session=1)
    story.answer(second)
    story.gossip(first)
    story.gossip(second)
    story.order(second)
    story.deliver()
    story.answer(second, ResponseKind.STABLE)
    third = story.strong(0, "duplicate")
    story.gossip(third)
    story.order(third)
    story.deliver(0, 1)
    story.answer(third, ResponseKind.STABLE)
    story.weak(2, "append", "lost", session=2)
    story.crash(2)
    story.restart(2, lost=1, checkpoint=1)
    fourth = story.weak(2, "append", "c", session=2)
    story.answer(fourth)
    story.settle()
    return story


def random_story(seed: int, terms: SchemeGuarantees = CREEK) -> Story:
    """A good history, at random: crashes that lose what nobody saw, checkpoints, late replicas."""
    random = Random(seed)
    story = Story(random.randint(1, 4), random.choice(sorted(DATATYPES)), terms)
    for session in range(random.randint(1, 30)):
        replica = random.randrange(len(story.incarnations))
        operation = sample_operation(story.datatype, random)
        issue = story.strong if random.random() < 0.4 else story.weak
        dot = issue(replica, operation.name, *operation.arguments, session=session)
        step = random.random()
        if step < 0.15:
            story.crash(replica)
            story.restart(replica, lost=1, checkpoint=random.randint(0, story.delivered(replica)))
            continue
        if terms.tentative:
            story.answer(dot)
        if step < 0.5:
            story.catch_up(random.randrange(len(story.incarnations)))
        elif step < 0.7:
            story.settle()
    story.settle()
    return story


# --- spoiling a history ------------------------------------------------------------------------


def with_operation(
    history: History, dot: Dot, change: Callable[[OperationRecord], OperationRecord]
) -> History:
    operations = tuple(change(each) if each.id == dot else each for each in history.operations)
    return msgspec.structs.replace(history, operations=operations)


def with_event(
    history: History, replica: int, old: Event, new: Event | None, incarnation: int = 0
) -> History:
    """`new` in the place of `old`; None takes it out."""

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


def with_final(
    history: History, replica: int, change: Callable[[FinalState], FinalState]
) -> History:
    finals = tuple(
        change(each) if each.replica == replica else each for each in history.final_states
    )
    return msgspec.structs.replace(history, final_states=finals)


# --- asking ------------------------------------------------------------------------------------


def accepts(check: Callable[[RunIndex], Verdict], history: History) -> None:
    verdict = check(RunIndex(history))
    assert isinstance(verdict, Ok), verdict.describe()


def refuses(check: Callable[[RunIndex], Verdict], history: History, words: str) -> Illegal:
    verdict = check(RunIndex(history))
    assert isinstance(verdict, Illegal), verdict
    assert words in verdict.message, verdict.describe()
    assert len(verdict.counterexample) <= 6
    assert verdict.describe().startswith(f"ILLEGAL  {verdict.checker}: ")
    return verdict
