"""A call comes after a request: it waits until that is here."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from creekdb.datatypes.kv import KV
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation
from creekdb.server.backup.sessions import BackupSessions
from creekdb.server.calls.dispatcher import CallDispatcher
from creekdb.server.security.authentication import AccessTokens
from creekdb.wire.messages import CallRequest

BEFORE = Dot(1, 7)


class Asking:
    """A client with two calls."""

    client, token = "ann", ""

    def __init__(self, desk: CallDispatcher) -> None:
        self._desk = desk
        self.calls = {each: CallRequest(each, "put", ("a", 1), after=(BEFORE,)) for each in (1, 2)}
        self.ids: list[Dot] = []
        self.refused: list[str] = []

    def ask(self) -> None:
        for each in self.calls.values():
            self._desk.dispatch(cast(Any, self), each)

    def again(self, number: int) -> None:
        self._desk.dispatch(cast(Any, self), self.calls[number])

    def session(self, number: int) -> int:
        return number

    def issued(self, number: int, id: Dot) -> None:
        self.ids.append(id)

    def refuse(self, call: CallRequest, reason: str, message: str) -> None:
        self.refused.append(reason)


def desk_of(
    invoke: Callable[..., Dot],
    here: set[Dot],
    who_cannot: Callable[[str, int], int | None] = lambda name, count: None,
) -> CallDispatcher:
    return CallDispatcher(
        "here",
        0,
        KV,
        invoke=invoke,
        has=here.__contains__,
        alone=lambda operation, strong: False,
        refusal=lambda strong, alone: None,
        who_cannot=who_cannot,
        change_members=Operation,
        status=dict,
        count=lambda reason: None,
        copies=cast(BackupSessions, None),
        tokens=cast(AccessTokens, None),
    )


def test_a_call_waits_until_what_it_comes_after_is_here_and_the_replica_is_told() -> None:
    here, told = set[Dot](), list[tuple[Dot, ...]]()

    def invoke(operation: Operation, strong: bool, session: int, after: tuple[Dot, ...]) -> Dot:
        told.append(after)
        return Dot(0, 1)

    async def story() -> None:
        desk = desk_of(invoke, here)
        asking = Asking(desk)
        asking.ask()
        assert len(desk.dependency_queue) == 2
        here.add(BEFORE)
        desk.release_dependents(BEFORE)
        assert not desk.dependency_queue
        assert asking.ids == [Dot(0, 1)] * 2
        assert told == [(BEFORE,)] * 2

    asyncio.run(story())


def test_who_comes_when_a_replica_may_be_called_is_not_told_that_it_waits() -> None:
    """Clients go on to another replica then; and it is opened at the next look."""
    why: list[str | None] = ["it waits for replica 2"]

    async def story() -> None:
        desk = desk_of(lambda *_: Dot(0, 1), {BEFORE})
        desk.block_calls(Dot(0, 0), lambda: why[0])
        assert desk.blocked_reason() == "it waits for replica 2"
        why[0] = None
        assert desk.blocked_reason() == ""
        asking = Asking(desk)
        asking.ask()
        assert len(desk.dependency_queue) == 2
        assert desk.expiry_message(Dot(0, 0)).endswith("it began just now")
        desk.unblock_calls()
        assert asking.ids == [Dot(0, 1)] * 2

    asyncio.run(story())


def test_a_call_that_waits_is_refused_for_what_others_lack_when_it_would_be_issued() -> None:
    """Until then they may have it; and one that only reads may be answered here alone by then."""
    here, lacking = set[Dot](), list[int | None]()

    async def story() -> None:
        desk = desk_of(lambda *_: Dot(0, 1), here, who_cannot=lambda name, count: lacking[0])
        asking = Asking(desk)
        lacking[:] = [2]
        asking.ask()
        assert len(desk.dependency_queue) == 2
        assert asking.refused == []
        here.add(BEFORE)
        desk.release_dependents(BEFORE)
        assert asking.refused == ["unknown_operation"] * 2
        assert asking.ids == []
        lacking[:] = [None]
        asking.ask()
        assert asking.ids == [Dot(0, 1)] * 2

    asyncio.run(story())
