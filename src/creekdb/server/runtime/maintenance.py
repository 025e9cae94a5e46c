"""What a replica takes over from a changed configuration while it runs.

What a replica looks after from time to time, each for as long as it runs.
"""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from creekdb.errors import UsageError
from creekdb.protocol.request import Operation
from creekdb.server.calls.expiry import ExpirySchedule, mark_key_range, read_marks
from creekdb.server.observability.divergence import DivergenceDetector
from creekdb.server.observability.recorder import RecordingWriter
from creekdb.server.runtime.config import ServerConfig
from creekdb.server.runtime.driver import Driver
from creekdb.server.security.authentication import certificate_expiry_s
from creekdb.server.storage.journal import Journal
from creekdb.server.transport.peers import PeerNetwork
from creekdb.wire.deduplication import expire_calls
from creekdb.wire.event_log import EventLog

RELOADABLE_KEYS: Final = ("security", "log", "log_level")
"""The keys."""
_JOURNALED_KEYS: Final = ("members", "replica")
"""What the journal knows better."""


def reload_certificates(
    before: ServerConfig, after: ServerConfig, contexts: Iterable[ssl.SSLContext]
) -> float | None:
    """For connections to come; answers when they expire, if there are any. Raises `UsageError`, and
    then all stays as it was. Authorities are added to those that are trusted already."""
    if after.is_secured != before.is_secured:
        raise UsageError("encryption is switched on or off when the replica is started again")
    if not after.is_secured:
        return None
    expires = certificate_expiry_s(after.security)
    for context in contexts:
        context.load_verify_locations(after.security.authority)
        context.load_cert_chain(after.security.certificate, after.security.key)
    return expires


def restart_keys(before: ServerConfig, after: ServerConfig) -> list[str]:
    """What is different, and takes effect only when the replica is started again."""
    return [
        name
        for name in ServerConfig.__struct_fields__
        if name not in (*RELOADABLE_KEYS, *_JOURNALED_KEYS)
        and getattr(after, name) != getattr(before, name)
    ]


DIGEST_INTERVAL_S: Final = 0.25
"""Between two messages with digests of the state."""
DISK_RETRY_INTERVAL_S: Final = 1.0
"""Between two looks whether a failed disk works again."""
DAY_S: Final = 86_400
"""Between two looks whether a certificate will expire soon."""
CERTIFICATE_WARNING_S: Final = 30 * DAY_S
SAMPLE_INTERVAL_S: Final = 0.25
"""Between two samples of its counters, where they are recorded."""
CHECKS_PER_INTERVAL: Final = 4
"""Whether it is time for the next mark, in the time between two."""
EXPIRY_PAUSE_S: Final = 0.02
"""Before more calls are forgotten: there may be much else to do."""

InternalCall: TypeAlias = Callable[[Operation, bool], Awaitable[Any]]
"""An operation of Creek's own, strong or weak; the first answer, or nothing."""


async def expire_old_calls(
    after_s: float, driver: Driver, leads: Callable[[], bool], call: InternalCall
) -> None:
    """By who leads, for all."""
    loop, replica = asyncio.get_running_loop(), driver.replica
    marking, places = ExpirySchedule(after_s, loop.time()), mark_key_range()
    while True:
        await asyncio.sleep(marking.interval_s / CHECKS_PER_INTERVAL)
        with driver.executor.lock:
            newest = replica.readable_lengths()[-1]
            marks = read_marks(replica.committed_items(newest, *places))
        settled = replica.stable_instances()
        mark, before_us = marking.check(
            marks, leads(), loop.time(), settled[replica.index], min(settled.values())
        )
        if mark is not None:
            await call(mark, True)
        rest: tuple[Any, ...] | None = ()
        while before_us is not None and rest is not None and leads():
            _, *more = await call(expire_calls(before_us, *rest), False) or (0,)
            rest = tuple(more) or None
            await asyncio.sleep(EXPIRY_PAUSE_S)


async def warn_of_certificate_expiry(expires: Callable[[], float], events: EventLog) -> None:
    """`expires`: when the certificate does, in seconds since 1970."""
    while True:
        until = expires()
        if until - time.time() < CERTIFICATE_WARNING_S:
            when = datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%d %H:%M UTC")
            what = f"its certificate expires on {when}: renew it, and send SIGHUP"
            events.warning("certificate.expires", what, expires=when)
        await asyncio.sleep(DAY_S)


async def retry_disk(journal: Journal) -> None:
    while True:
        await asyncio.sleep(DISK_RETRY_INTERVAL_S)
        if journal.fault is not None:
            journal.retry()


async def exchange_digests(
    digests: DivergenceDetector,
    journal: Journal,
    peers: PeerNetwork,
    fail: Callable[[Exception], None],
    events: EventLog,
) -> None:
    loop = asyncio.get_running_loop()
    differing: list[int] = []
    while True:
        await asyncio.sleep(DIGEST_INTERVAL_S)
        peers.send(peers.connected_members(), digests.take_message(journal.durable_position))
        verdict = digests.verdict(loop.time())
        if verdict is not None:
            fail(verdict)
            return
        found = digests.differing_peers()
        for peer in found:
            if peer not in differing:
                what = f"replica {peer} has come to another state than this one"
                events.error("state.differs", what, peer=peer)
        differing = found


async def record_samples(recorder: RecordingWriter, driver: Driver, peers: PeerNetwork) -> None:
    while True:
        record_sample(recorder, driver, peers)
        await asyncio.sleep(SAMPLE_INTERVAL_S)


def record_sample(recorder: RecordingWriter, driver: Driver, peers: PeerNetwork) -> None:
    recorder.record_sample(
        driver.replica,
        backlog=driver.backlog,
        executions=driver.executions,
        bytes=peers.sent_bytes,
        messages=peers.sent_messages,
    )
