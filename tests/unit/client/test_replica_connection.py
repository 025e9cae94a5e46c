"""Where a client looks for a replica, and for how long."""

import asyncio
import errno
from typing import Any, cast

import pytest

from creekdb.client import NotDone, replica_connection
from creekdb.client.replica_connection import ReplicaConnection, ReplicaDiscovery
from creekdb.errors import UsageError
from creekdb.wire import messages

HELLO = messages.ClientHello(messages.WIRE_VERSION, "me", "", "")


@pytest.mark.parametrize(("patience", "each"), [(9.0, 3.0), (1.5, 1.0), (0.5, 0.5)])
def test_one_that_is_silent_is_not_waited_for_with_all_patience(
    patience: float, each: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[tuple[int, float]] = []

    async def dial(
        address: tuple[str, int], *more: Any
    ) -> tuple[ReplicaConnection, messages.Welcome]:

        tried.append((address[1], more[-1]))
        if address[1] == 1:
            raise TimeoutError
        return ReplicaConnection(HELLO, lambda message: None), messages.Welcome(
            1, "creek", 0, "kv", ()
        )

    monkeypatch.setattr(replica_connection, "dial", dial)

    async def story() -> None:
        finder = ReplicaDiscovery([("one", 1), ("other", 2), ("third", 3)], None, patience)
        await finder.find(HELLO, lambda message: None)

    asyncio.run(story())
    assert tried == [(1, each), (2, each)]


class Closable:
    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("waits", "chosen"),
    [(["", "", ""], 0), (["new", "", "new"], 1), (["new", "new", "new"], 0), (["new", None], 0)],
)
def test_one_that_takes_no_part_yet_is_chosen_only_if_no_other_does(
    waits: list[str | None], chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [Closable() for _ in waits]
    dialled: list[Closable] = []

    async def dial(address: tuple[str, int], *_: Any) -> tuple[ReplicaConnection, messages.Welcome]:
        said = waits[address[1]]
        if said is None:
            raise ConnectionRefusedError
        dialled.append(lines[address[1]])
        welcome = messages.Welcome(1, "creek", address[1], "kv", (), said)
        return cast(ReplicaConnection, lines[address[1]]), welcome

    monkeypatch.setattr(replica_connection, "dial", dial)

    async def story() -> None:
        finder = ReplicaDiscovery([("there", each) for each in range(len(waits))], None, 1.0)
        _, welcome = await finder.find(HELLO, lambda message: None)
        assert welcome.replica == chosen

    asyncio.run(story())
    assert [each for each in dialled if not each.is_closed] == [lines[chosen]]


def looked(patience: float, outcomes: dict[int, Exception], monkeypatch: pytest.MonkeyPatch) -> str:
    """What somebody is told who looked at those ports in vain."""

    async def dial(address: tuple[str, int], *_: Any) -> tuple[ReplicaConnection, messages.Welcome]:
        raise outcomes[address[1]]

    monkeypatch.setattr(replica_connection, "dial", dial)

    async def story() -> None:
        finder = ReplicaDiscovery([("there", port) for port in outcomes], None, patience)
        with pytest.raises((NotDone, UsageError)) as told:
            await finder.find(HELLO, lambda message: None)
        said.append(str(told.value))

    said: list[str] = []
    asyncio.run(story())
    return said[0]


REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed")


def test_for_each_address_it_is_told_what_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: dict[int, Exception] = {1: TimeoutError(), 2: REFUSED, 3: REFUSED}
    assert looked(0.1, outcomes, monkeypatch) == (
        "no replica can be reached, tried for 0.1 s: "
        "there:1: no answer; there:2, there:3: Connection refused"
    )


def test_one_that_is_not_for_clients_is_told_with_what_happened_to_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mistake = UsageError("there:2 is not for clients")
    assert looked(9.0, {2: mistake}, monkeypatch) == "there:2 is not for clients"
    said = looked(9.0, {1: TimeoutError(), 2: mistake, 3: REFUSED}, monkeypatch)
    assert said == "there:2 is not for clients; there:1: no answer; there:3: Connection refused"


def test_who_waits_is_told_what_has_happened_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    async def dial(address: tuple[str, int], *_: Any) -> tuple[ReplicaConnection, messages.Welcome]:
        if address[1] == 1:
            raise REFUSED
        await asyncio.sleep(60)
        raise TimeoutError

    monkeypatch.setattr(replica_connection, "dial", dial)

    async def story() -> None:
        finder = ReplicaDiscovery([("there", port) for port in (1, 2, 3)], None, 9.0)
        looking = asyncio.ensure_future(finder.find(HELLO, lambda message: None))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        so_far = "there:1: Connection refused; there:2: no answer yet; there:3: not asked yet"
        assert finder.progress_text() == so_far
        looking.cancel()

    asyncio.run(story())
