"""What a replica looks after from time to time, each for as long as it runs."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from creek.cluster.desk import Desk
from creek.cluster.digests import Digests
from creek.cluster.driver import Driver
from creek.cluster.forgetting import Marking, marks_in, places_of_marks
from creek.cluster.journal import Journal
from creek.cluster.logs import EventLog
from creek.cluster.once import forget_calls
from creek.cluster.peers import Peers
from creek.cluster.recorder import Recorder
from creek.protocol.dots import Dot
from creek.protocol.request import Operation
from creek.schemes.contract import Replica

TELL_S: Final = 2.0
"""Until whoever looks after a replica is told what it waits for."""
DIGEST_S: Final = 0.25
"""Between two messages with digests of the state."""
RETRY_S: Final = 1.0
"""Between two looks whether a failed disk works again."""
DAY_S: Final = 86_400
"""Between two looks whether a certificate will expire soon."""
SOON_S: Final = 30 * DAY_S
SAMPLE_S: Final = 0.25
"""Between two samples of its counters, where they are recorded."""
UNTOLD_S: Final = 0.05
"""Between two looks whether all answers have left."""
LOOKS: Final = 4
"""Whether it is time for the next mark, in the time between two."""
PAUSE_S: Final = 0.02
"""Before more calls are forgotten: there may be much else to do."""

Call: TypeAlias = Callable[[Operation, bool], Awaitable[Any]]
"""An operation of Creek's own, strong or weak; the first answer, or nothing."""


@contextmanager
def told_if_long(what: str, events: EventLog) -> Iterator[None]:
    """For what holds up the loop."""
    over = threading.Event()

    def tell() -> None:
        seconds = TELL_S
        while not over.wait(TELL_S):
            events.info("replica.busy", f"{what}, for {seconds:.0f} s so far")
            seconds += TELL_S

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


async def forget_old_calls(
    after_s: float, driver: Driver, leads: Callable[[], bool], call: Call
) -> None:
    """By who leads, for all."""
    loop, replica = asyncio.get_running_loop(), driver.replica
    marking, places = Marking(after_s, loop.time()), places_of_marks()
    while True:
        await asyncio.sleep(marking.part_s / LOOKS)
        with driver.executor.gate:
            newest = replica.readable_lengths()[-1]
            marks = marks_in(replica.committed_items(newest, *places))
        settled = replica.progress()
        mark, before_us = marking.look(
            marks, leads(), loop.time(), settled[replica.index], min(settled.values())
        )
        if mark is not None:
            await call(mark, True)
        rest: tuple[Any, ...] | None = ()
        while before_us is not None and rest is not None and leads():
            _, *more = await call(forget_calls(before_us, *rest), False) or (0,)
            rest = tuple(more) or None
            await asyncio.sleep(PAUSE_S)


async def give_up_untold(ids: list[Dot], desk: Desk, journal: Journal) -> None:
    """Once those answers have left that are known: they wait for the disk."""
    end = journal.end
    while journal.durable < end:
        await asyncio.sleep(UNTOLD_S)
    await asyncio.sleep(UNTOLD_S)
    desk.give_up(ids)


def is_to_be_replaced(replica: Replica) -> bool:
    """Did it begin with nothing, where those who knew what it forgot may be gone?"""
    return replica.waits_for() is not None and replica.configuration().epoch > 0


def what_it_waits_for(replica: Replica) -> str | None:
    """Why one that began with nothing takes no part yet; None when it does."""
    missing = replica.waits_for()
    if missing is None:
        return None
    if is_to_be_replaced(replica):
        return (
            "its folder was empty, and the members have been changed: those who knew what it had "
            "promised may be gone, so it cannot take part any more. Let a new one take its place: "
            f"'creek member replace {replica.index} HOST:PORT --data DIR'"
        )
    whom = f"replicas {', '.join(map(str, missing))}" if missing else "their state"
    return (
        "its folder was empty: it takes no part before every other member has told what it knows, "
        f"and waits for {whom}"
    )


async def wait_for_others(replica: Replica, beat_s: float, events: EventLog) -> None:
    """Until the replica, which began with nothing, takes part."""
    loop = asyncio.get_running_loop()
    tell_at, epoch = loop.time() + TELL_S, -1
    while (what := what_it_waits_for(replica)) is not None:
        if loop.time() >= tell_at and epoch != replica.configuration().epoch:
            epoch = replica.configuration().epoch
            events.warning("replica.waits", what, waits_for=replica.waits_for())
        await asyncio.sleep(beat_s)
    if epoch >= 0:
        events.info("replica.entered", "takes part")


async def tell_of_expiry(expires: Callable[[], float], events: EventLog) -> None:
    """`expires`: when the certificate does, in seconds since 1970."""
    while True:
        until = expires()
        if until - time.time() < SOON_S:
            when = datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%d %H:%M UTC")
            what = f"its certificate expires on {when}: renew it, and send SIGHUP"
            events.warning("certificate.expires", what, expires=when)
        await asyncio.sleep(DAY_S)


async def mend_disk(journal: Journal) -> None:
    while True:
        await asyncio.sleep(RETRY_S)
        if journal.failed is not None:
            journal.retry()


async def compare_digests(
    digests: Digests,
    journal: Journal,
    peers: Peers,
    fail: Callable[[Exception], None],
    events: EventLog,
) -> None:
    loop = asyncio.get_running_loop()
    differing: list[int] = []
    while True:
        await asyncio.sleep(DIGEST_S)
        peers.send(peers.connected(), digests.take_told(journal.durable))
        verdict = digests.verdict(loop.time())
        if verdict is not None:
            fail(verdict)
            return
        found = digests.differing()
        for peer in found:
            if peer not in differing:
                what = f"replica {peer} has come to another state than this one"
                events.error("state.differs", what, peer=peer)
        differing = found


async def sample(recorder: Recorder, driver: Driver, peers: Peers) -> None:
    while True:
        take_sample(recorder, driver, peers)
        await asyncio.sleep(SAMPLE_S)


def take_sample(recorder: Recorder, driver: Driver, peers: Peers) -> None:
    recorder.sampled(
        driver.replica,
        backlog=driver.backlog,
        executions=driver.executions,
        bytes=peers.sent_bytes,
        messages=peers.sent_messages,
    )
