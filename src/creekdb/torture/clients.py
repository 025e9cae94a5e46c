"""Closed-loop clients that record every call as they observe it."""

import asyncio
import contextlib
from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from creekdb.checkers.blackbox.observations import CallStatus, FinalObservation, ObservedCall
from creekdb.client import Call, CallFailed, Database, NotDone, OperationFailed, Unknown
from creekdb.execution.datatype import DataType
from creekdb.load.workload import WorkloadCall
from creekdb.torture.workload import CallSource

FINAL_KIND: Final = "final"
CALL_TIMEOUT_S: Final = 10.0
"""Upper bound for one call and its retries, in seconds."""
THINK_TIME_MAX_S: Final = 0.1
"""Upper bound for the pause of a client between two calls, in seconds."""
FINAL_FRACTION: Final = 0.3
"""Fraction of the weak calls whose final response the client awaits, if there can be one."""


class CallOutcome(NamedTuple):
    """First response to a weak call, or stable response to a strong one."""

    status: CallStatus
    value: Any
    call: Call[Any] | None = None
    """The call, if a final response may follow."""


class Session(Protocol):
    """Connection of a client."""

    async def call(self, call: WorkloadCall) -> CallOutcome: ...


class TcpSession:
    def __init__(self, database: Database, datatype: DataType) -> None:
        self._database = database
        self._datatype = datatype

    async def call(self, call: WorkloadCall) -> CallOutcome:
        proxy = self._database.strong if call.strong else self._database.weak
        sent: Call[Any] = getattr(proxy, call.operation)(*call.arguments)
        has_final = not call.strong and not self._datatype.is_readonly(call.operation)
        followed = sent if has_final else None
        try:
            return CallOutcome(CallStatus.OK, await sent, followed)
        except OperationFailed as error:
            return CallOutcome(CallStatus.ERROR, str(error), followed)
        except NotDone as error:
            return CallOutcome(CallStatus.REJECTED, error.reason)
        except Unknown as error:
            return CallOutcome(CallStatus.UNKNOWN, str(error))


class ClientPool:
    """Clients that call until `stop`. `now` returns the time of the torture, in seconds."""

    def __init__(
        self,
        source: CallSource,
        now: Callable[[], float],
        on_call: Callable[[ObservedCall], None] = lambda call: None,
    ) -> None:
        self._source = source
        self._now = now
        self._on_call = on_call
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopping = asyncio.Event()
        self.calls: list[ObservedCall] = []
        """All calls with an outcome, in the order of their outcomes."""

    def start(self, name: str, session: Session, *, is_weak: bool = False) -> None:
        """Start a client. If it is weak, it makes weak calls only, and no partition stops it."""
        source = self._draw_weak if is_weak else self._source
        self._tasks.append(asyncio.create_task(self._run(name, session, source)))

    def _draw_weak(self, random: Random, client: str) -> WorkloadCall:
        return msgspec.structs.replace(self._source(random, client), strong=False)

    async def stop(self) -> None:
        """Wait for the calls in progress, and raise the error of a client that failed.

        Further clients may be started afterwards.
        """
        self._is_stopping.set()
        await asyncio.gather(*self._tasks)
        self._tasks.clear()
        self._is_stopping.clear()

    async def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, name: str, session: Session, source: CallSource) -> None:
        random = Random(name)
        async with asyncio.TaskGroup() as finals:
            while not self._is_stopping.is_set():
                call = source(random, name)
                invoked_us = self._now_us()
                outcome = await session.call(call)
                observed = self._observed(name, call, invoked_us, outcome)
                if outcome.call is not None and random.random() < FINAL_FRACTION:
                    finals.create_task(self._await_final(observed, outcome.call))
                else:
                    self._record(observed)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(random.random() * THINK_TIME_MAX_S):
                        await self._is_stopping.wait()

    def _now_us(self) -> int:
        return int(1e6 * self._now())

    def _observed(
        self, client: str, call: WorkloadCall, invoked_us: int, outcome: CallOutcome
    ) -> ObservedCall:
        is_unknown = outcome.status is CallStatus.UNKNOWN
        return ObservedCall(
            client=client,
            operation=call.operation,
            arguments=call.arguments,
            strong=call.strong,
            invoked_us=invoked_us,
            responded_us=None if is_unknown else self._now_us(),
            status=outcome.status,
            value=outcome.value,
        )

    async def _await_final(self, observed: ObservedCall, call: Call[Any]) -> None:
        """Record the call with its final response, or without it if it does not arrive."""
        final = None
        with contextlib.suppress(CallFailed, TimeoutError):
            async with asyncio.timeout(CALL_TIMEOUT_S):
                async for response in call:
                    if response.kind == FINAL_KIND:
                        is_error = response.error is not None
                        final = FinalObservation(
                            responded_us=self._now_us(),
                            status=CallStatus.ERROR if is_error else CallStatus.OK,
                            value=response.error if is_error else response.value,
                            changed=response.changed,
                        )
        self._record(msgspec.structs.replace(observed, final=final))

    def _record(self, observed: ObservedCall) -> None:
        self.calls.append(observed)
        self._on_call(observed)
