"""Equivalence of `creek` and `basic`: equal orders, stable responses and states.

Two replicas, one of each scheme, get the same inputs. Each executes at its own pace, and `creek`
completes its tasks in any order. The test checks:

- Both agree with each other and with a sequential execution of the committed order.
- At every step, each valid execution of `creek` gives the same outcome if repeated in its position.
- Each tentative response of `creek` is the outcome of the serialisation that it reports.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.datatypes import DATATYPES, SAMPLERS
from creekdb.execution.datatype import DataType
from creekdb.execution.mvcc.entry import ExecutionPhase
from creekdb.protocol.effects import Committed, Response, ResponseKind, Task
from creekdb.protocol.ids.version_vector import Dot, Dots, DotSet
from creekdb.protocol.messages import Cast, Decisions
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.protocol.settings import Settings
from creekdb.schemes.basic import BasicReplica
from creekdb.schemes.creek import CreekReplica

SEPARATE = Settings(members=(0, 1, 2), checkpoint_every=7, record_orders=1)
MERGING = Settings(members=(0, 1, 2), checkpoint_every=7, record_orders=1, kept_apart=8)
FOOTPRINTS = Settings(
    members=(0, 1, 2),
    checkpoint_every=7,
    record_orders=1,
    kept_apart=8,
    estimates=1,
    footprints=1,
)


class SchemeRun:
    """A replica, its pending tasks and its outputs."""

    def __init__(self, replica: BasicReplica | CreekReplica) -> None:
        self.replica = replica
        self.tasks: list[Task] = []
        self.committed: list[Dot] = []
        self.stable: dict[Dot, Outcome] = {}
        self.tentative: dict[Dot, list[Outcome]] = {}
        self.final: dict[Dot, Response] = {}
        self.observed: list[Response] = []

    def take_effects(self) -> None:
        effects = self.replica.take_effects()
        self.tasks += effects.tasks
        self.committed += [each.id for each in effects.events if isinstance(each, Committed)]
        for response in effects.respond:
            assert response.id not in self.stable, "no response follows a stable one"
            if response.kind is ResponseKind.STABLE:
                self.stable[response.id] = response.outcome
            elif response.kind is ResponseKind.FINAL:
                self.final[response.id] = response
            else:
                self.observed.append(response)
                self.tentative.setdefault(response.id, []).append(response.outcome)

    def run(self, choice: int) -> None:
        if self.tasks:
            task = self.tasks.pop(choice % len(self.tasks))
            self.replica.completed(task, self.replica.run(task), 0)
            self.take_effects()


class SchemePair:
    def __init__(self, datatype: DataType, settings: Settings) -> None:
        self.datatype = datatype
        self.basic = SchemeRun(BasicReplica(0, settings, datatype))
        self.creek = SchemeRun(CreekReplica(0, settings, datatype))
        self.requests: dict[Dot, Request] = {}
        self.undecided: list[Dot] = []
        self.events = {0: 0, 1: 0, 2: 0}
        self.instances = 0
        self.now = 1_000

    def apply_to_both(self, act: Callable[[BasicReplica | CreekReplica], Any]) -> None:
        for side in (self.basic, self.creek):
            act(side.replica)
            side.take_effects()

    def invoke(self, operation: Operation, strong: bool) -> None:
        self.now += 10
        session = len(self.requests) % 3
        if not strong and self.datatype.is_readonly(operation.name):
            self._invoke_local_read(operation, session)
            return
        self.apply_to_both(lambda replica: replica.invoke(operation, strong, session, self.now))
        self._record_issued(0, strong)

    def _invoke_local_read(self, operation: Operation, session: int) -> None:
        """Invoke a local read on `creek` alone, since it has no effect on other requests."""
        replica = self.creek.replica
        assert isinstance(replica, CreekReplica)
        id = replica.invoke(operation, False, session, self.now)
        self.requests[id] = replica._local_reads.entries[id].request
        self.creek.take_effects()

    def deliver(self, origin: int, operation: Operation, strong: bool, random: Random) -> None:
        """Deliver a request of a peer with its own clock and a random part of the context."""
        timestamp = max(1, self.now + random.randrange(-200, 50))
        timestamp = max([timestamp, *self._timestamps_of(origin)]) + 1
        id = Dot(origin, self.events[origin] + 1)
        context = self._context(origin, timestamp, random) if strong else None
        request = Request(timestamp, id, operation, strong, context)
        self.requests[id] = request
        self.apply_to_both(lambda replica: replica.receive(Cast((request,)), origin, self.now))
        self._record_issued(origin, strong)

    def decide(self, choice: int) -> None:
        if self.undecided:
            id = self.undecided.pop(choice % len(self.undecided))
            message = Decisions(self.instances, ((id,),))
            self.instances += 1
            self.apply_to_both(lambda replica: replica.receive(message, 1, self.now))

    def finish(self) -> None:
        while self.undecided:
            self.decide(0)
        for side in (self.basic, self.creek):
            for _ in range(10_000):
                side.run(0)
            assert side.replica.view.is_idle()

    def assert_equal_results(self) -> None:
        assert self.basic.committed == self.creek.committed
        assert self.basic.replica.view.tentative_ids() == self.creek.replica.view.tentative_ids()
        assert self.basic.stable == self.creek.stable
        assert self.basic.replica.view.state() == self.creek.replica.view.state()
        assert {id: each.outcome for id, each in self.basic.final.items()} == {
            id: each.outcome for id, each in self.creek.final.items()
        }
        local = {id for id in self.requests if id.event < 0}
        assert (
            set(self.basic.tentative) | set(self.basic.stable)
            == (set(self.creek.tentative) | set(self.creek.stable)) - local
        )
        assert local <= set(self.creek.tentative)

    def assert_sequential_order(self) -> None:
        machine = self.datatype.sequential()
        assert len(self.creek.committed) == self.creek.replica.view.committed_length()
        for id in (*self.creek.committed, *self.creek.replica.view.tentative_ids()):
            outcome = machine.apply(self._request(id))
            assert self.creek.stable.get(id, outcome) == outcome
            final = self.creek.final.get(id)
            if final is not None:
                assert final.outcome == outcome
                assert final.changed == (self.creek.tentative[id] != [outcome])
        assert machine.state == self.creek.replica.view.state()

    def assert_observed_orders(self) -> None:
        for response in self.creek.observed:
            assert response.observed is not None
            machine = self.datatype.sequential()
            committed = self.creek.committed[: response.observed.settled]
            for id in (*committed, *response.observed.ids):
                machine.apply(self._request(id))
            assert machine.apply(self._request(response.id)) == response.outcome

    def assert_valid_executions(self) -> None:
        replica = self.creek.replica
        assert isinstance(replica, CreekReplica)
        for entry in replica._execution.entries.values():
            if entry.phase is ExecutionPhase.EXECUTED and replica._execution.store.is_valid_up_to(
                entry.position
            ):
                snapshot = replica._execution.store.snapshot(entry.position)
                repeated = self.datatype.run(entry.request, snapshot)
                assert repeated.outcome == entry.outcome
                assert set(repeated.writes) | set(repeated.blind_adds) == set(entry.versions)

    def _request(self, id: Dot) -> Request:
        return self.requests[id]

    def _record_issued(self, origin: int, strong: bool) -> None:
        self.events[origin] += 1
        id = Dot(origin, self.events[origin])
        if id not in self.requests:
            tentative = self.creek.replica._order.find_tentative(id)
            assert tentative is not None
            self.requests[id] = tentative
        if strong:
            self.undecided.append(id)

    def _timestamps_of(self, origin: int) -> list[int]:
        return [
            each.timestamp
            for id, each in self.requests.items()
            if id.replica == origin and id.event > 0
        ]

    def _context(self, origin: int, timestamp: int, random: Random) -> Dots:
        committed = set(self.creek.committed)
        known = DotSet()
        for replica, events in self.events.items():
            known_events = events if replica == origin else random.randint(0, events)
            for event in range(1, known_events + 1):
                id = Dot(replica, event)
                earlier = self.requests[id].timestamp < timestamp
                if id in committed or (earlier and not self.requests[id].strong):
                    known.add(id)
        return known.freeze()


def check_random_schedule(name: str, settings: Settings, seed: int, length: int) -> None:
    random = Random(seed)
    pair = SchemePair(DATATYPES[name], settings)
    strong_share = random.choice((0.1, 0.5))
    for _ in range(length):
        operation = pair.datatype.call(*_flatten(SAMPLERS[name](random)))
        strong = random.random() < strong_share
        if random.random() < 0.4:
            pair.invoke(operation, strong)
        else:
            pair.deliver(random.choice((1, 2)), operation, strong, random)
        for _ in range(random.randrange(4)):
            side = random.choice((pair.basic, pair.creek, pair.creek))
            side.run(random.randrange(16))
        if random.random() < 0.3:
            pair.decide(random.randrange(8))
        pair.assert_valid_executions()
    pair.finish()
    pair.assert_valid_executions()
    pair.assert_equal_results()
    pair.assert_sequential_order()
    pair.assert_observed_orders()


@pytest.mark.parametrize(
    "settings", [SEPARATE, MERGING, FOOTPRINTS], ids=["apart", "merging", "footprints"]
)
@pytest.mark.parametrize("name", sorted(set(DATATYPES) - {"sql"}))
@given(seed=st.integers(0, 2**32), length=st.integers(1, 60))
def test_creek_and_basic_agree_on_random_schedules(
    name: str, settings: Settings, seed: int, length: int
) -> None:
    check_random_schedule(name, settings, seed, length)


@pytest.mark.skipif("sql" not in DATATYPES, reason="requires apsw")
@given(seed=st.integers(0, 2**32), length=st.integers(1, 40))
@hypothesis.settings(max_examples=20)  # a statement takes longer than other operations
def test_creek_and_basic_agree_on_random_schedules_of_sql(seed: int, length: int) -> None:
    check_random_schedule("sql", MERGING, seed, length)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(56, id="a request was merged while its response was blocked"),
        pytest.param(863, id="the last pending member of a split run only reads"),
        pytest.param(1138, id="a member of a split run is executed before the others"),
    ],
)
def test_merged_runs_do_not_release_responses_early(seed: int) -> None:
    check_random_schedule("bank", MERGING, seed, 42)


def _flatten(sample: tuple[str, tuple[Any, ...]]) -> tuple[Any, ...]:
    return sample[0], *sample[1]
