"""Clients that record calls as they observe them."""

import asyncio
from random import Random

from creekdb.checkers.blackbox.observations import CallStatus, ObservedCall
from creekdb.client import Call, CallResponse
from creekdb.load.workload import WorkloadCall
from creekdb.protocol.ids.version_vector import Dot
from creekdb.torture.clients import CallOutcome, ClientPool
from creekdb.wire.messages import CallRequest

CALLS = 40


class CountingSession:
    """Session whose calls succeed at once. Each has a final response that differs."""

    def __init__(self) -> None:
        self.number = 0

    async def call(self, call: WorkloadCall) -> CallOutcome:
        self.number += 1
        if self.number % 5 == 0:
            return CallOutcome(CallStatus.UNKNOWN, "no response in time")
        request = CallRequest(self.number, "add", (), False)
        followed: Call[int] = Call(request, None, id=Dot(0, self.number))
        followed.add_response(CallResponse(self.number, "tentative", self.number, None))
        followed.add_response(CallResponse(self.number, "final", -self.number, None, changed=True))
        return CallOutcome(CallStatus.OK, self.number, followed)


def recorded_calls() -> list[ObservedCall]:
    """Return the calls of one client, by a clock that advances with every reading."""
    times = iter(range(10**6))

    async def run() -> list[ObservedCall]:
        stopped = asyncio.Event()

        def on_call(call: ObservedCall) -> None:
            if len(pool.calls) >= CALLS:
                stopped.set()

        pool = ClientPool(draw, lambda: next(times) / 1e6, on_call)
        pool.start("client", CountingSession())
        await stopped.wait()
        await pool.stop()
        return pool.calls

    def draw(random: Random, client: str) -> WorkloadCall:
        random.seed(next(times))  # short pauses, and about as many final responses as usual
        return WorkloadCall("add", (), False)

    return asyncio.run(run())


def test_a_pool_records_responses_and_some_final_ones() -> None:
    calls = recorded_calls()

    assert len(calls) >= CALLS
    for call in calls:
        assert (call.responded_us is None) == (call.status is CallStatus.UNKNOWN)
        assert call.responded_us is None or call.responded_us > call.invoked_us
        if call.final is not None:
            assert call.responded_us is not None
            assert call.final.responded_us > call.responded_us
            assert (call.final.value, call.final.changed) == (-call.value, True)
    finals = [call for call in calls if call.final is not None]
    assert 0 < len(finals) < len(calls)
