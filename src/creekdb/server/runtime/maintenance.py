"""Periodic tasks of a running replica, and the reload of its configuration."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeAlias

from creekdb.execution.keys import SINKS_PREFIX, prefix_range
from creekdb.protocol.request import Operation
from creekdb.server.calls.expiry import ExpirySchedule, mark_key_range, read_marks
from creekdb.server.changes.feed import ChangeFeed
from creekdb.server.changes.gap_filling import FILL_INTERVAL_S, GapFiller
from creekdb.server.observability.divergence import DivergenceDetector
from creekdb.server.observability.recorder import RecordingWriter
from creekdb.server.runtime.config import ServerConfig
from creekdb.server.runtime.driver import Driver
from creekdb.server.storage.journal import Journal
from creekdb.server.transport.peers import PeerNetwork
from creekdb.wire.deduplication import expire_calls
from creekdb.wire.event_log import EventLog, EventName
from creekdb.wire.staging import expire_staged

RELOADABLE_KEYS: Final = ("security", "log", "log_level")
"""Configuration keys that a reload applies."""
_JOURNALED_KEYS: Final = ("members", "replica")
"""Configuration keys whose current values are in the journal."""


def restart_keys(before: ServerConfig, after: ServerConfig) -> list[str]:
    """Return the changed keys that take effect only after a restart."""
    return [
        name
        for name in ServerConfig.__struct_fields__
        if name not in (*RELOADABLE_KEYS, *_JOURNALED_KEYS)
        and getattr(after, name) != getattr(before, name)
    ]


DIGEST_INTERVAL_S: Final = 0.25
"""Interval between two messages with state digests, in seconds."""
CHANGES_EXPIRY_S: Final = 1.0
"""Interval between two checks for expired changes, in seconds."""
DISK_RETRY_INTERVAL_S: Final = 1.0
"""Interval between two attempts to use a failed disk, in seconds."""
DAY_S: Final = 86_400
"""Interval between two checks of the certificate's expiry, in seconds."""
CERTIFICATE_WARNING_S: Final = 30 * DAY_S
"""Remaining validity below which a warning is logged, in seconds."""
SAMPLE_INTERVAL_S: Final = 0.25
"""Interval between two recorded samples of the counters, in seconds."""
CHECKS_PER_INTERVAL: Final = 4
"""Number of expiry checks per mark interval."""
EXPIRY_PAUSE_S: Final = 0.02
"""Pause between two batches of expired calls, in seconds, in favour of other work."""

IDLE_TICKS: Final = 2
"""Number of ticks that an idle replica processes together. It wakes half as often, and sends as
many heartbeats, which are due at every second tick."""
SLEW_MAX: Final = 0.1
"""Upper bound for the shift of the ticks of an idle replica, as a share of the tick interval."""

InternalCall: TypeAlias = Callable[[Operation, bool], Awaitable[Any]]
"""Invocation of an internal operation, strong or weak. Returns the first response, or nothing."""
Sleep: TypeAlias = Callable[[float], Awaitable[None]]
"""Function that sleeps for at least these seconds. That of a `Ticker` wakes no idle replica."""


def wall_clock_lead_s() -> float:
    """Return the seconds by which the wall clock is ahead of the monotonic clock."""
    return time.time() - time.monotonic()


class Ticker:
    """Steady timer of a replica. Periodic tasks that are not urgent run at its ticks.

    While the replica is idle, the next `IDLE_TICKS` are due together. They are due at a multiple of
    their duration on the wall clock. So idle replicas with synchronised clocks wake at the same
    time, for their own ticks and the messages of all peers at once. The ticks approach this time
    slowly, and the wall clock has no other influence on them.
    """

    def __init__(
        self, interval_s: float, clock_lead_s: Callable[[], float] = wall_clock_lead_s
    ) -> None:
        self._interval_s = interval_s
        self._clock_lead_s = clock_lead_s
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []
        """Times at which sleeping tasks are due, with the futures that wake them."""

    async def run(self, tick: Callable[[float, int], None], is_idle: Callable[[], bool]) -> None:
        """Call `tick` with the seconds since its last call, and the number of ticks that are due.

        A call that arrives while the replica is idle has waited for as many ticks at most.
        """
        due_s = last_s = time.monotonic()
        ticks = 1
        while True:
            now_s = time.monotonic()
            tick(now_s - last_s, ticks)
            self._wake_sleepers(now_s)
            last_s = now_s
            ticks, wait_s = self.next_wait(due_s, is_idle())
            due_s = max(due_s + wait_s, time.monotonic())
            await asyncio.sleep(due_s - time.monotonic())

    def next_wait(self, due_s: float, is_idle: bool) -> tuple[int, float]:
        """Return the number of ticks to process together after the one due at `due_s`, and the
        seconds until then."""
        if not is_idle:
            return 1, self._interval_s
        passed = (due_s + self._clock_lead_s()) / self._interval_s
        lag = passed - round(passed)
        ticks = IDLE_TICKS - round(passed) % IDLE_TICKS
        return ticks, (ticks - max(-SLEW_MAX, min(lag, SLEW_MAX))) * self._interval_s

    async def sleep(self, seconds: float) -> None:
        """Sleep until the first tick at least `seconds` from now."""
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((time.monotonic() + seconds, wake))
        await wake

    def _wake_sleepers(self, now_s: float) -> None:
        due = [wake for due_s, wake in self._sleepers if due_s <= now_s]
        if due:
            self._sleepers = [each for each in self._sleepers if each[0] > now_s]
        for wake in due:
            if not wake.done():  # cancelled
                wake.set_result(None)


async def expire_old_calls(
    retention_s: float, driver: Driver, is_leader: Callable[[], bool], call: InternalCall
) -> None:
    """Issue marks, and expire calls and staged rows, while this replica is the leader."""
    loop, replica = asyncio.get_running_loop(), driver.replica.view
    schedule, mark_keys = ExpirySchedule(retention_s, loop.time()), mark_key_range()
    sink_keys = prefix_range((SINKS_PREFIX,))
    while True:
        await asyncio.sleep(schedule.interval_s / CHECKS_PER_INTERVAL)
        with driver.executor.lock:
            newest = replica.readable_lengths()[-1]
            marks = read_marks(replica.committed_items(newest, *mark_keys))
        stable = replica.stable_instances()
        mark, before_us = schedule.check(
            marks, is_leader(), loop.time(), stable[replica.index], min(stable.values())
        )
        if mark is not None:
            await call(mark, True)
        if before_us is None:
            continue
        await _expire_all(partial(expire_calls, before_us), is_leader, call)
        with driver.executor.lock:
            newest = replica.readable_lengths()[-1]
            has_sinks = any(True for _ in replica.committed_items(newest, *sink_keys))
        if has_sinks:
            await _expire_all(partial(expire_staged, before_us), is_leader, call)


async def _expire_all(
    make: Callable[..., Operation], is_leader: Callable[[], bool], call: InternalCall
) -> None:
    """Expire registers in batches, while this replica is the leader."""
    cursor: tuple[Any, ...] | None = ()
    while cursor is not None and is_leader():
        _, *following = await call(make(*cursor), False) or (0,)
        cursor = tuple(following) or None
        await asyncio.sleep(EXPIRY_PAUSE_S)


async def expire_changes(sleep: Sleep, feed: ChangeFeed) -> None:
    while True:
        await sleep(CHANGES_EXPIRY_S)
        feed.log.expire()


async def fill_gaps(sleep: Sleep, filler: GapFiller) -> None:
    while True:
        await sleep(FILL_INTERVAL_S)
        filler.tick()


async def warn_of_certificate_expiry(
    expires_s: Callable[[], float | None], events: EventLog
) -> None:
    """Log a daily warning before the certificate expires. `expires_s` is in seconds since 1970."""
    while True:
        expiry_s = expires_s()
        if expiry_s is not None and expiry_s - time.time() < CERTIFICATE_WARNING_S:
            expiry = datetime.fromtimestamp(expiry_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
            message = f"the certificate expires on {expiry}; renew it and send SIGHUP"
            events.warning(EventName.CERTIFICATE_EXPIRES, message, expires=expiry)
        await asyncio.sleep(DAY_S)


async def retry_disk(sleep: Sleep, journal: Journal) -> None:
    while True:
        await sleep(DISK_RETRY_INTERVAL_S)
        if journal.fault is not None:
            journal.retry()


async def exchange_digests(
    sleep: Sleep,
    detector: DivergenceDetector,
    journal: Journal,
    peers: PeerNetwork,
    fail: Callable[[Exception], None],
    events: EventLog,
) -> None:
    loop = asyncio.get_running_loop()
    differing: list[int] = []
    while True:
        await sleep(DIGEST_INTERVAL_S)
        peers.send(peers.connected_members(), detector.take_message(journal.durable_position))
        verdict = detector.verdict(loop.time())
        if verdict is not None:
            fail(verdict)
            return
        now_differing = detector.differing_peers()
        for peer in now_differing:
            if peer not in differing:
                message = f"the state of replica {peer} differs from the state of this replica"
                events.error(EventName.STATE_DIFFERS, message, peer=peer)
        differing = now_differing


async def record_samples(recorder: RecordingWriter, driver: Driver, peers: PeerNetwork) -> None:
    while True:
        recorder.record_sample(driver, peers)
        await asyncio.sleep(SAMPLE_INTERVAL_S)
