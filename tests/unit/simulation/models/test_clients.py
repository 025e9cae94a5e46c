"""Simulated clients: loops, timeouts, session lifecycle, and independent operation streams."""

import pytest

from creekdb.errors import BadValue
from creekdb.protocol.effects import Response, ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Outcome
from creekdb.simulation.kernel.scenario import ClientModel, ScriptedInvocation, source_from_sampler
from creekdb.simulation.kernel.simulated_time import EventHeap
from creekdb.simulation.models.clients import SimulatedClients
from tests.unit.simulation.toy_replica import sample


class ClientHarness:
    """Clients of replicas that respond after `response_us`, or never."""

    def __init__(
        self,
        model: ClientModel,
        replicas: int = 1,
        response_us: int | None = 100,
        script: tuple[ScriptedInvocation, ...] = (),
    ) -> None:
        self.heap = EventHeap()
        self.response_us = response_us
        self.issued: list[tuple[int, int, Operation, bool, int]] = []
        self.clients = SimulatedClients(
            self.heap, model, replicas, 0, source_from_sampler(sample), self._invoke
        )
        for replica in range(replicas):
            self.clients.replica_started(replica)
        self.clients.start(script)

    def run(self, until_us: int) -> None:
        self.heap.schedule_at(until_us, self.clients.stop)
        self.heap.run()

    def respond(self, session: int, event: int, kind: ResponseKind) -> None:
        self.clients.handle_response(Response(Dot(0, event), session, kind, Outcome()))

    def _invoke(self, replica: int, operation: Operation, strong: bool, session: int) -> None:
        self.issued.append((self.heap.now_us, replica, operation, strong, session))
        event = len(self.issued)
        self.clients.record_id(session, Dot(0, event))
        if self.response_us is not None:
            self.heap.schedule_after(
                self.response_us, self.respond, session, event, ResponseKind.TENTATIVE
            )
            self.heap.schedule_after(
                2 * self.response_us, self.respond, session, event, ResponseKind.STABLE
            )


WEAK = ClientModel(sessions=1, think_us=0, strong_share=0.0)
STRONG = ClientModel(sessions=1, think_us=0, strong_share=1.0, tentative_only_share=0.0)


def test_weak_operations_wait_for_the_tentative_response() -> None:
    harness = ClientHarness(WEAK)
    harness.run(until_us=350)
    assert [at_us for at_us, *_ in harness.issued] == [0, 100, 200, 300]


def test_strong_operations_wait_for_the_stable_response() -> None:
    harness = ClientHarness(STRONG)
    harness.run(until_us=350)
    assert [at_us for at_us, *_ in harness.issued] == [0, 200]


def test_some_strong_operations_wait_only_for_the_tentative_response() -> None:
    model = ClientModel(sessions=1, think_us=0, strong_share=1.0, tentative_only_share=1.0)
    harness = ClientHarness(model)
    harness.run(until_us=350)
    assert [at_us for at_us, *_ in harness.issued] == [0, 100, 200, 300]


def test_a_session_continues_after_a_timeout() -> None:
    model = ClientModel(sessions=1, think_us=0, strong_share=0.0, patience_us=1_000)
    harness = ClientHarness(model, response_us=None)
    harness.run(until_us=2_500)
    assert [at_us for at_us, *_ in harness.issued] == [0, 1_000, 2_000]
    assert harness.clients.timed_out_calls == 3
    assert harness.clients.waiting_sessions == 0


def test_a_late_response_to_an_abandoned_operation_is_ignored() -> None:
    model = ClientModel(sessions=1, think_us=0, strong_share=0.0, patience_us=80)
    harness = ClientHarness(model, response_us=100)
    harness.run(until_us=200)
    assert [at_us for at_us, *_ in harness.issued] == [0, 80, 160]


def test_sessions_respect_their_operation_limit() -> None:
    model = ClientModel(sessions=2, think_us=10, operations_per_session=3)
    harness = ClientHarness(model, replicas=2)
    harness.run(until_us=1_000_000)
    assert len(harness.issued) == 2 * 2 * 3


def test_stopped_clients_issue_nothing_and_await_pending_responses() -> None:
    harness = ClientHarness(STRONG)
    harness.heap.schedule_at(50, harness.clients.stop)
    harness.heap.run()
    assert len(harness.issued) == 1
    assert harness.clients.waiting_sessions == 0


def test_sessions_end_in_a_crash_and_new_ones_begin_after_the_restart() -> None:
    harness = ClientHarness(WEAK, replicas=2)
    harness.heap.schedule_at(150, harness.clients.replica_crashed, 0)
    harness.heap.schedule_at(500, harness.clients.replica_started, 0)
    harness.run(until_us=650)
    at_first = [(at_us, session) for at_us, replica, *_, session in harness.issued if replica == 0]
    assert at_first == [(0, 1), (100, 1), (500, 3), (600, 3)]
    assert [session for _, replica, *_, session in harness.issued if replica == 1] == [2] * 7


def test_open_loop_arrivals_do_not_wait_and_sessions_have_one_operation_at_a_time() -> None:
    model = ClientModel(rate_per_second=1_000.0, strong_share=0.0)
    harness = ClientHarness(model, response_us=5_000)
    harness.run(until_us=1_000_000)
    assert 850 < len(harness.issued) < 1_150
    busy_until: dict[int, int] = {}
    for at_us, *_, session in harness.issued:
        assert at_us >= busy_until.get(session, 0)
        busy_until[session] = at_us + 5_000
    assert len(busy_until) < 30, "idle sessions are reused"


def test_open_loop_arrivals_at_a_crashed_replica_are_not_served() -> None:
    harness = ClientHarness(ClientModel(rate_per_second=1_000.0))
    harness.clients.replica_crashed(0)
    harness.run(until_us=100_000)
    assert harness.issued == []
    assert harness.clients.unserved_calls > 50


@pytest.mark.parametrize("rate_per_second", [0.0, 1_000.0])
def test_operations_are_independent_of_response_times(rate_per_second: float) -> None:
    model = ClientModel(sessions=1, rate_per_second=rate_per_second, strong_share=0.5)
    quick, slow = ClientHarness(model, response_us=10), ClientHarness(model, response_us=7_000)
    for harness in (quick, slow):
        harness.run(until_us=300_000)
    issued = [
        [(operation, strong) for *_, operation, strong, _ in each.issued] for each in (quick, slow)
    ]
    shorter = min(map(len, issued))
    assert shorter > 5
    assert issued[0][:shorter] == issued[1][:shorter]


def test_scripted_operations_run_at_their_times_on_their_own_sessions() -> None:
    script = (
        ScriptedInvocation(10, 0, Operation("increment", (1,))),
        ScriptedInvocation(20, 1, Operation("increment", (2,)), strong=True),
        ScriptedInvocation(30, 0, Operation("increment", (3,))),
        ScriptedInvocation(40, 0, Operation("increment", (4,)), session=1),
    )
    harness = ClientHarness(ClientModel(sessions=0), replicas=2, script=script)
    harness.run(until_us=1_000)
    assert harness.issued == [
        (10, 0, Operation("increment", (1,)), False, 1),
        (20, 1, Operation("increment", (2,)), True, 2),
        (30, 0, Operation("increment", (3,)), False, 1),
        (40, 0, Operation("increment", (4,)), False, 3),
    ]
    assert harness.clients.waiting_sessions == 0


def test_a_scripted_operation_at_a_crashed_replica_is_not_served() -> None:
    harness = ClientHarness(
        ClientModel(sessions=0), script=(ScriptedInvocation(10, 0, Operation("increment")),)
    )
    harness.clients.replica_crashed(0)
    harness.run(until_us=1_000)
    assert harness.issued == []
    assert harness.clients.unserved_calls == 1


def test_invalid_client_models_are_rejected() -> None:
    with pytest.raises(BadValue, match="strong_share is 2"):
        ClientModel(strong_share=2)
    with pytest.raises(BadValue, match="think_us is -1"):
        ClientModel(think_us=-1)
    with pytest.raises(BadValue, match="patience_us is -1"):
        ClientModel(patience_us=-1)
    with pytest.raises(BadValue, match="negative"):
        ScriptedInvocation(-1, 0, Operation("increment"))
