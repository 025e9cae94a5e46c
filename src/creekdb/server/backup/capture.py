"""Capture of the committed state of a live replica, and of the committed requests in its journal.

A journal holds requests as they arrived and decisions as they were learned. Replaying them as a
replica does (Algorithm 1, lines 48-54), but without execution, yields the order of the requests
since the last checkpoint.
"""

import asyncio
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

from creekdb.errors import StorageFault, UsageError
from creekdb.protocol.checkpoint.replay import replay_records
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import Checkpoint, Record
from creekdb.protocol.order import RequestOrder
from creekdb.protocol.request import Batch, Request
from creekdb.server.backup.format import BackupHeader
from creekdb.server.backup.sessions import CapturedState, LockedRegisters
from creekdb.server.runtime.config import ServerConfig
from creekdb.server.runtime.driver import Driver, wall_clock_us
from creekdb.server.storage.journal import Journal
from creekdb.server.storage.segments import read_segment_chain


class CommittedRequests(NamedTuple):
    """Committed requests that a journal contains."""

    first: int
    """Position of the first of the requests on `committed`."""
    requests: tuple[Request, ...]


def replay_committed(records: list[Record]) -> CommittedRequests:
    """Return the committed requests in the records of a journal."""
    state, order, instance = replay_records(records), RequestOrder(), 0
    if state.checkpoint is not None:
        order.install(state.checkpoint.length, state.checkpoint.ids)
        instance = state.checkpoint.instance
    first, decided = order.length, state.decided
    for request in {each.id: each for each in state.requests}.values():
        if request.id not in order.committed_ids:
            order.insert(request)
    while instance in decided and _deliver(order, decided[instance]):
        instance += 1
    return CommittedRequests(first, tuple(order.committed))


def _deliver(order: RequestOrder, batch: Batch) -> bool:
    """Commit the requests of a batch. Return False if one of them, or of a causal context, is
    missing. A weak request belongs to the cut of the next strong one (`RequestOrder.commit`)."""
    cut: list[Dot] = []
    for id in batch:
        if id in order.committed_ids:
            continue
        request = order.find_tentative(id)
        if request is None:
            return False
        needed = request.context
        if needed is None:
            needed = Dots({id.replica: (1, id.event + 1)})
        for each in order.committed_ids.missing(needed):
            if order.find_tentative(each) is None:
                return False
        if request.context is None:
            cut.append(id)
        else:
            order.commit(request, cut)
            cut.clear()
    return True


DURABLE_POLL_S: Final = 0.005


async def capture_state(
    config: ServerConfig,
    datatype: str,
    driver: Driver,
    journal: Journal,
    durable_timeout_s: float,
    operations: bool,
) -> CapturedState:
    """Return the state after the longest executed prefix of `committed` that ends with an instance.

    If `operations` is True, include the requests of the prefix that the journal still has.
    """
    replica = driver.replica.view
    if replica.awaited_members() is not None:
        raise UsageError(
            "this replica has an empty disk and has not joined yet; call another replica"
        )
    driver.apply_effects()  # the journal must have all records behind the state
    checkpoint, registers = driver.lazy_checkpoint()
    state = LockedRegisters(registers, driver.executor.lock)
    requests: tuple[Request, ...] = ()
    try:
        await wait_until_durable(journal, durable_timeout_s)
        if operations:
            requests = await asyncio.to_thread(_read_operations, Path(config.data), checkpoint)
    except BaseException:
        state.close()
        raise
    header = BackupHeader(
        cluster=config.cluster,
        replica=config.replica,
        members=replica.configuration().replica_ids,
        datatype=datatype,
        imported=config.datatype,
        scheme=config.scheme,
        release=version("creekdb"),
        taken_us=wall_clock_us(),
        length=checkpoint.length,
        instance=checkpoint.instance,
        ids=checkpoint.ids,
        timestamp=checkpoint.timestamp,
        first=checkpoint.length - len(requests),
    )
    return CapturedState(header, state, requests)


async def wait_until_durable(journal: Journal, timeout_s: float) -> bool:
    """Return True if all records of the journal are durable. Volatile records may be lost.

    The function does not wait for a failed disk, which may be the reason for the backup.
    """
    journal.request_sync()
    end, attempts = journal.end_position, int(timeout_s / DURABLE_POLL_S)
    while journal.durable_position < end and journal.fault is None and attempts:
        attempts -= 1
        await asyncio.sleep(DURABLE_POLL_S)
    return journal.durable_position >= end


def _read_operations(data_dir: Path, checkpoint: Checkpoint) -> tuple[Request, ...]:
    """Return the last requests of the prefix. The result is empty if the journal lacks its end."""
    try:
        chain = read_segment_chain(data_dir)
    except StorageFault:
        chain = read_segment_chain(data_dir)  # a checkpoint removed a segment during the read
    first, requests = replay_committed(chain.records)
    count = checkpoint.length - first
    return requests[:count] if 0 <= count <= len(requests) else ()
