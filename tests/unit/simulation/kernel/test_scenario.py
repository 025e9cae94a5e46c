"""Clients: loops, patience, the ends of sessions, and independence of what they ask."""

import pytest

from creekdb.errors import BadValue
from creekdb.protocol.effects import Response, ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Outcome
from creekdb.simulation.kernel.scenario import ClientModel, ScriptedInvocation, source_from_sampler
from creekdb.simulation.kernel.simulated_time import EventHeap
from creekdb.simulation.models.clients import SimulatedClients
from tests.unit.simulation.toy_replica import sample


class Bench:
    """Clients of replicas that answer after `answer_us`, or never."""

    def __init__(
        self,
        model: ClientModel,
        replicas: int = 1,
        answer_us: int | None = 100,
        script: tuple[ScriptedInvocation, ...] = (),
    ) -> None:
        self.heap = EventHeap()
        self.answer_us = answer_us
        self.asked: list[tuple[int, int, Operation, bool, int]] = []
        self.clients = SimulatedClients(
            self.heap, model, replicas, 0, source_from_sampler(sample), self._invoke
        )
        for replica in range(replicas):
            self.clients.replica_started(replica)
        self.clients.start(script)

    def run(self, until_us: int) -> None:
        self.heap.schedule_at(until_us, self.clients.stop)
        self.heap.run()

    def answer(self, session: int, event: int, kind: ResponseKind) -> None:
        self.clients.handle_response(Response(Dot(0, event), session, kind, Outcome()))

    def _invoke(self, replica: int, operation: Operation, strong: bool, session: int) -> None:
        self.asked.append((self.heap.now_us, replica, operation, strong, session))
        event = len(self.asked)
        self.clients.record_id(session, Dot(0, event))
        if self.answer_us is not None:
            self.heap.schedule_after(
                self.answer_us, self.answer, session, event, ResponseKind.TENTATIVE
            )
            self.heap.schedule_after(
                2 * self.answer_us, self.answer, session, event, ResponseKind.STABLE
            )


WEAK = ClientModel(sessions=1, think_us=0, strong_share=0.0)
STRONG = ClientModel(sessions=1, think_us=0, strong_share=1.0, tentative_only_share=0.0)


def test_a_weak_operation_waits_for_its_tentative_answer() -> None:
    bench = Bench(WEAK)
    bench.run(until_us=350)
    assert [at_us for at_us, *_ in bench.asked] == [0, 100, 200, 300]


def test_a_strong_operation_waits_for_its_stable_answer() -> None:
    bench = Bench(STRONG)
    bench.run(until_us=350)
    assert [at_us for at_us, *_ in bench.asked] == [0, 200]


def test_some_clients_of_strong_operations_go_on_after_the_tentative_answer() -> None:
    model = ClientModel(sessions=1, think_us=0, strong_share=1.0, tentative_only_share=1.0)
    bench = Bench(model)
    bench.run(until_us=350)
    assert [at_us for at_us, *_ in bench.asked] == [0, 100, 200, 300]


def test_a_client_whose_patience_ends_goes_on_without_its_answer() -> None:
    model = ClientModel(sessions=1, think_us=0, strong_share=0.0, patience_us=1_000)
    bench = Bench(model, answer_us=None)
    bench.run(until_us=2_500)
    assert [at_us for at_us, *_ in bench.asked] == [0, 1_000, 2_000]
    assert bench.clients.timed_out_calls == 3
    assert bench.clients.waiting_sessions == 0


def test_a_late_answer_to_an_abandoned_operation_is_not_taken_for_the_current_one() -> None:
    model = ClientModel(sessions=1, think_us=0, strong_share=0.0, patience_us=80)
    bench = Bench(model, answer_us=100)
    bench.run(until_us=200)
    assert [at_us for at_us, *_ in bench.asked] == [0, 80, 160]


def test_a_session_asks_no_more_than_its_limit() -> None:
    model = ClientModel(sessions=2, think_us=10, operations_per_session=3)
    bench = Bench(model, replicas=2)
    bench.run(until_us=1_000_000)
    assert len(bench.asked) == 2 * 2 * 3


def test_nobody_asks_after_the_stop_and_waiting_ends_with_the_last_answer() -> None:
    bench = Bench(STRONG)
    bench.heap.schedule_at(50, bench.clients.stop)
    bench.heap.run()
    assert len(bench.asked) == 1
    assert bench.clients.waiting_sessions == 0


def test_sessions_end_with_their_replica_and_new_ones_begin_after_the_restart() -> None:
    bench = Bench(WEAK, replicas=2)
    bench.heap.schedule_at(150, bench.clients.replica_crashed, 0)
    bench.heap.schedule_at(500, bench.clients.replica_started, 0)
    bench.run(until_us=650)
    at_first = [(at_us, session) for at_us, replica, *_, session in bench.asked if replica == 0]
    assert at_first == [(0, 1), (100, 1), (500, 3), (600, 3)]
    assert [session for _, replica, *_, session in bench.asked if replica == 1] == [2] * 7


def test_an_open_loop_does_not_wait_and_a_session_has_one_operation_at_a_time() -> None:
    model = ClientModel(rate_per_second=1_000.0, strong_share=0.0)
    bench = Bench(model, answer_us=5_000)
    bench.run(until_us=1_000_000)
    assert 850 < len(bench.asked) < 1_150
    busy_until: dict[int, int] = {}
    for at_us, *_, session in bench.asked:
        assert at_us >= busy_until.get(session, 0)
        busy_until[session] = at_us + 5_000
    assert len(busy_until) < 30, "sessions are used again"


def test_an_open_loop_finds_no_one_at_a_replica_that_is_down() -> None:
    bench = Bench(ClientModel(rate_per_second=1_000.0))
    bench.clients.replica_crashed(0)
    bench.run(until_us=100_000)
    assert bench.asked == []
    assert bench.clients.unserved_calls > 50


@pytest.mark.parametrize("rate_per_second", [0.0, 1_000.0])
def test_what_is_asked_does_not_depend_on_when_it_is_answered(rate_per_second: float) -> None:
    model = ClientModel(sessions=1, rate_per_second=rate_per_second, strong_share=0.5)
    quick, slow = Bench(model, answer_us=10), Bench(model, answer_us=7_000)
    for bench in (quick, slow):
        bench.run(until_us=300_000)
    asked = [
        [(operation, strong) for *_, operation, strong, _ in each.asked] for each in (quick, slow)
    ]
    shorter = min(map(len, asked))
    assert shorter > 5
    assert asked[0][:shorter] == asked[1][:shorter]


def test_scripted_operations_happen_when_told_on_sessions_of_their_own() -> None:
    script = (
        ScriptedInvocation(10, 0, Operation("increment", (1,))),
        ScriptedInvocation(20, 1, Operation("increment", (2,)), strong=True),
        ScriptedInvocation(30, 0, Operation("increment", (3,))),
        ScriptedInvocation(40, 0, Operation("increment", (4,)), session=1),
    )
    bench = Bench(ClientModel(sessions=0), replicas=2, script=script)
    bench.run(until_us=1_000)
    assert bench.asked == [
        (10, 0, Operation("increment", (1,)), False, 1),
        (20, 1, Operation("increment", (2,)), True, 2),
        (30, 0, Operation("increment", (3,)), False, 1),
        (40, 0, Operation("increment", (4,)), False, 3),
    ]
    assert bench.clients.waiting_sessions == 0


def test_a_scripted_operation_at_a_replica_that_is_down_is_not_served() -> None:
    bench = Bench(
        ClientModel(sessions=0), script=(ScriptedInvocation(10, 0, Operation("increment")),)
    )
    bench.clients.replica_crashed(0)
    bench.run(until_us=1_000)
    assert bench.asked == []
    assert bench.clients.unserved_calls == 1


def test_clients_that_cannot_be_are_refused() -> None:
    with pytest.raises(BadValue, match="strong_share is 2"):
        ClientModel(strong_share=2)
    with pytest.raises(BadValue, match="think_us is -1"):
        ClientModel(think_us=-1)
    with pytest.raises(BadValue, match="patience_us is -1"):
        ClientModel(patience_us=-1)
    with pytest.raises(BadValue, match="negative"):
        ScriptedInvocation(-1, 0, Operation("increment"))
