"""The numbers that a live replica runs the protocol with.

A replica that begins: what takes it long, and whom it waits for, told to who looks after it.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.settings import Settings
from creekdb.schemes.core.replica import Replica
from creekdb.server.observability.divergence import DIGEST_INTERVAL_REQUESTS
from creekdb.server.runtime.config import ServerConfig
from creekdb.wire.event_log import EventLog

NOOP_TICKS: Final = 5
"""How long a weak request may stay unstable: what becomes stable together is handled in one turn of
the loop, so it should not be much."""
CONSENSUS_WINDOW: Final = 8
"""Instances of consensus under way at once: with fewer, each decides more, and costs as much."""
INLINE_TASKS_MAX: Final = 1
"""Tasks that are handed out before the first of them is completed. They are run one by one, and
each is better chosen late: one that has to be executed before others may have come meanwhile."""
THREAD_TASKS_MAX: Final = 64
"""The same, for a thread that should not wait for the loop between two of them."""


def protocol_settings(config: ServerConfig, configuration: Configuration) -> Settings:
    """`configuration`: the members that it begins with."""
    inline = config.execution == "inline"
    return Settings(
        members=configuration.replica_ids,
        checkpoint_every=config.checkpoint_every,
        record_orders=int(config.record_orders),
        digest_every=DIGEST_INTERVAL_REQUESTS,
        drafts=1,
        noop_ticks=NOOP_TICKS,
        window=CONSENSUS_WINDOW,
        parallelism=INLINE_TASKS_MAX if inline else THREAD_TASKS_MAX,
        begin_anew=int(not config.fresh),
    ).with_configuration(configuration)


REPORT_AFTER_S: Final = 2.0
"""Until somebody is told."""


@contextmanager
def log_if_slow(what: str, events: EventLog) -> Iterator[None]:
    """For what holds up the loop."""
    over = threading.Event()

    def tell() -> None:
        seconds = REPORT_AFTER_S
        while not over.wait(REPORT_AFTER_S):
            events.info("replica.busy", f"{what}, for {seconds:.0f} s so far")
            seconds += REPORT_AFTER_S

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def must_be_replaced(replica: Replica) -> bool:
    """Did it begin with nothing, where those who knew what it forgot may be gone?"""
    return replica.awaited_members() is not None and replica.configuration().epoch > 0


def join_blocker(replica: Replica) -> str | None:
    """Why one that began with nothing takes no part yet, and what to do; None when it does."""
    missing = replica.awaited_members()
    if missing is None:
        return None
    if must_be_replaced(replica):
        return (
            "its journal was empty, and the members have been changed: those who knew what it had "
            "promised may be gone, so it cannot take part any more. Let a new one take its place: "
            f"'creek member replace {replica.index} HOST:PORT --data DIR'"
        )
    if not missing:
        return "its journal was empty: it fetches the state of the others, then it takes part"
    whom = ", ".join(f"replica {each}" for each in missing)
    return (
        "its journal was empty: it takes no part before every other member has told what it knows, "
        f"and waits for {whom}. Start what is down; if one is lost for good, replace it and then "
        "this one ('creek member replace')"
    )


async def wait_until_joined(replica: Replica, beat_s: float, events: EventLog) -> None:
    """Until the replica, which began with nothing, takes part."""
    loop = asyncio.get_running_loop()
    tell_at, epoch = loop.time() + REPORT_AFTER_S, -1
    while (what := join_blocker(replica)) is not None:
        if loop.time() >= tell_at and epoch != replica.configuration().epoch:
            epoch = replica.configuration().epoch
            events.warning("replica.waits", what, waits_for=replica.awaited_members())
        await asyncio.sleep(beat_s)
    if epoch >= 0:
        events.info("replica.entered", "takes part")
