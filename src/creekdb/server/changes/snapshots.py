"""Leased snapshots: the committed state at one index, readable by key range from any connection.

A reader opens a snapshot and receives its identifier, its index and keys that split it into ranges
of similar size. Any connection to this replica can read any range, and repeat it. A snapshot costs
one entry per register that changes while it is open. So their number is bounded, and each has a
lease, which every read renews. After the snapshot, the change feed continues at its index plus one.

A reader may keep its lease although it reads no more. So if a snapshot is requested while the
maximum number is open, the least recently read one ends, unless it was read in the last `idle_s`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from secrets import token_hex
from typing import Any, Final, NamedTuple

import msgspec

from creekdb.errors import CreekError, UsageError
from creekdb.execution.keys import (
    FIRST_COLLATION_KEY,
    LAST_COLLATION_KEY,
    CollationKey,
    collation_key,
    prefix_range,
)
from creekdb.execution.mvcc.pinned_state import SAMPLES_PER_SPLIT, PinnedState
from creekdb.protocol.values import Key
from creekdb.server.changes.tables import SqlTables
from creekdb.server.runtime.driver import Driver
from creekdb.server.runtime.task_supervisor import Spawn
from creekdb.wire.messages import (
    Rejected,
    SnapshotOpened,
    SnapshotPage,
    SnapshotRead,
    SnapshotRequest,
)
from creekdb.wire.reject_reason import RejectReason

PARTITIONS_MAX: Final = 1024
SAMPLES_MAX: Final = 64 * 1024
"""Number of sampled keys at which no more are sampled for a range with few of them."""


class SnapshotLimits(NamedTuple):
    snapshots_max: int = 4
    """Upper bound for the open snapshots of a replica."""
    idle_s: float = 5.0
    """Time without a read after which a snapshot may be ended in favour of another, in seconds."""
    lease_s_max: float = 600.0
    """Upper bound for the time without a read after which a snapshot ends, in seconds."""
    page_registers_max: int = 1000
    page_bytes_max: int = 256 * 1024
    """Approximate size of one page, in bytes."""


DEFAULT_LIMITS: Final = SnapshotLimits()


class _Lease:
    def __init__(self, state: PinnedState, seconds: float) -> None:
        self.state = state
        self.seconds = seconds
        self.timer: asyncio.TimerHandle | None = None
        self.read_s = 0.0
        """Time of the last read, by the clock of the event loop."""


class LeasedSnapshots:
    """Open snapshots of a replica."""

    def __init__(
        self,
        driver: Driver,
        identity: Callable[[], str | None],
        wait_durable: Callable[[], Awaitable[bool]],
        spawn: Spawn,
        tables: SqlTables,
        limits: SnapshotLimits = DEFAULT_LIMITS,
    ) -> None:
        """`wait_durable` waits until all records of the journal are durable."""
        self._driver = driver
        self._identity = identity
        self._wait_durable = wait_durable
        self._spawn = spawn
        self._tables = tables
        self._limits = limits
        self._leases: dict[str, _Lease] = {}

    def start(
        self, request: SnapshotRequest, send: Callable[[SnapshotOpened | Rejected], None]
    ) -> None:
        """Open a snapshot, and send the response when it can be read."""

        async def respond() -> None:
            send(await self.open(request))

        self._spawn(respond())

    async def open(self, request: SnapshotRequest) -> SnapshotOpened | Rejected:
        number, limits = request.number, self._limits
        if len(self._leases) >= limits.snapshots_max and not self._release_idle():
            message = f"{limits.snapshots_max} snapshots are open; release one, or retry later"
            return Rejected(number, RejectReason.BUSY, message)
        driver = self._driver
        driver.apply_effects()  # the journal must have all records behind the state
        with driver.executor.lock:
            view = driver.replica.view
            index, state = (0, None) if view.awaited_members() is not None else view.pin_state()
        if state is None:
            message = "this replica has no state yet, or its scheme has no snapshots"
            return Rejected(number, RejectReason.NOT_READY, message)
        id = token_hex(8)
        lease = self._leases[id] = _Lease(state, min(request.lease_ms / 1000, limits.lease_s_max))
        lease.read_s = asyncio.get_running_loop().time()
        try:
            is_durable = await self._wait_durable()
        except CreekError:
            is_durable = False
        if not is_durable:
            self.release(id)
            return Rejected(number, RejectReason.DISK, "the state is not on the disk yet")
        if state.is_lost:  # in favour of another snapshot, or by a snapshot of another replica
            self.release(id)
            message = "the snapshot ended before it could be read; retry"
            return Rejected(number, RejectReason.NOT_READY, message)
        table, prefix = None, request.prefix
        if request.table:
            try:
                table = self._tables.find_in(state, request.table)
            except UsageError as error:
                self.release(id)
                return Rejected(number, RejectReason.UNKNOWN_TABLE, str(error))
            prefix = table.prefix
        with driver.executor.lock:
            splits = _split_keys(state, request.partitions, prefix)
        self._renew(id, lease)  # the lease begins when the reader may use the snapshot
        return SnapshotOpened(
            number, id, self._identity() or "", index, int(lease.seconds * 1000), splits, table
        )

    def read(self, request: SnapshotRead) -> SnapshotPage | Rejected:
        lease = self._leases.get(request.id)
        if lease is None or lease.state.is_lost:
            self.release(request.id)
            message = (
                "the snapshot has expired, was ended in favour of another, or was opened at "
                "another replica; open another one"
            )
            return Rejected(request.number, RejectReason.STATE_EXPIRED, message)
        self._renew(request.id, lease)
        start, stop = _range(request)
        items: list[tuple[Key, Any]] = []
        size = 0
        limits, following = self._limits, None
        with self._driver.executor.lock:
            for key, value in lease.state.items(start, stop):
                if len(items) >= limits.page_registers_max or size >= limits.page_bytes_max:
                    following = key
                    break
                items.append((key, value))
                size += len(msgspec.msgpack.encode(items[-1]))
        return SnapshotPage(request.number, tuple(items), following)

    def release(self, id: str) -> None:
        lease = self._leases.pop(id, None)
        if lease is not None:
            if lease.timer is not None:
                lease.timer.cancel()
            with self._driver.executor.lock:
                lease.state.close()

    def _release_idle(self) -> bool:
        """End the snapshot that was not read for longest. Return False if all are being read."""
        id, lease = min(self._leases.items(), key=lambda item: item[1].read_s)
        is_idle = asyncio.get_running_loop().time() - lease.read_s >= self._limits.idle_s
        if is_idle:
            self.release(id)
        return is_idle

    def close(self) -> None:
        for id in tuple(self._leases):
            self.release(id)

    def _renew(self, id: str, lease: _Lease) -> None:
        if lease.timer is not None:
            lease.timer.cancel()
        loop = asyncio.get_running_loop()
        lease.read_s = loop.time()
        lease.timer = loop.call_later(lease.seconds, self.release, id)


def _range(request: SnapshotRead) -> tuple[CollationKey, CollationKey]:
    """Return the requested range, without the registers of Creek itself."""
    start, stop = FIRST_COLLATION_KEY, LAST_COLLATION_KEY
    if request.prefix is not None:
        start, stop = prefix_range(request.prefix)
    if request.start is not None:
        start = max(start, collation_key(request.start))
    if request.stop is not None:
        stop = min(stop, collation_key(request.stop))
    return start, max(start, min(stop, LAST_COLLATION_KEY))


def _split_keys(
    state: PinnedState, partitions: int, prefix: str | tuple[str | int, ...] | None
) -> tuple[Key, ...]:
    """Return keys that split the registers into about `partitions` ranges of similar size."""
    partitions = max(1, min(partitions, PARTITIONS_MAX))
    if partitions == 1:
        return ()
    first, last = FIRST_COLLATION_KEY, LAST_COLLATION_KEY
    if prefix is not None:
        first, last = prefix_range(prefix)
    last = min(last, LAST_COLLATION_KEY)
    count = partitions * SAMPLES_PER_SPLIT
    while True:
        sample = set(state.sample_keys(count))
        keys = [key for key in sample if first <= collation_key(key) < last]
        if len(keys) >= partitions * SAMPLES_PER_SPLIT // 4 or count >= SAMPLES_MAX:
            break
        count *= 8  # the range holds a small share of the registers
    keys.sort(key=collation_key)
    chosen = [keys[len(keys) * each // partitions] for each in range(1, partitions)] if keys else []
    return tuple(dict.fromkeys(key for key in chosen if key != keys[0]))
