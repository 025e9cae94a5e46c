"""What was committed, in its order, as a journal tells: from its last checkpoint on.

A journal holds requests as they arrived and decisions as they were learned. Put together as a
replica does it (Algorithm 1, lines 48-54), but without executing anything, they tell which request
took which place.

Taking a copy of what a live replica has committed.
"""

import asyncio
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

from creekdb.errors import StorageFault, UsageError
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Checkpoint, CheckpointRecord, Decided, Received, Record
from creekdb.protocol.order import RequestOrder
from creekdb.protocol.request import Batch, Request
from creekdb.server.backup.format import BackupHeader
from creekdb.server.backup.sessions import CapturedState, LockedRegisters
from creekdb.server.runtime.config import ServerConfig
from creekdb.server.runtime.driver import Driver, wall_clock_us
from creekdb.server.storage.journal import Journal
from creekdb.server.storage.segments import read_segment_chain


class CommittedRequests(NamedTuple):
    first: int
    """The place of the first of the requests on `committed`."""
    requests: tuple[Request, ...]


def read_committed(folder: Path) -> CommittedRequests:
    """By the journal in a folder, which may be in use. Raises `StorageFault`."""
    return replay_committed(read_segment_chain(folder).records)


def replay_committed(records: list[Record]) -> CommittedRequests:
    order = RequestOrder()
    instance = 0
    known: dict[Dot, Request] = {}
    decided: dict[int, Batch] = {}
    for record in records:
        match record:
            case CheckpointRecord(checkpoint=checkpoint):
                order = RequestOrder()
                order.install(checkpoint.length, checkpoint.ids)
                instance = checkpoint.instance
                known = {each.id: each for each in record.requests}
                decided = dict(record.decided)
            case Received(request=request):
                known[request.id] = request
            case Decided():
                decided[record.instance] = record.batch
            case _:
                pass
    first = order.length
    for request in known.values():
        if request.id not in order.committed_ids:
            order.insert(request)
    while instance in decided and all(_deliver(order, id) for id in decided[instance]):
        instance += 1
    return CommittedRequests(first, tuple(order.committed))


def _deliver(order: RequestOrder, id: Dot) -> bool:
    """False when the request, or one of its causal context, is not known."""
    if id in order.committed_ids:
        return True
    request = order.find_tentative(id)
    if request is None or request.context is None:
        return False
    missing = order.committed_ids.missing(request.context)
    if any(order.find_tentative(each) is None for each in missing):
        return False
    order.commit(request)
    return True


DURABLE_TIMEOUT_S: Final = 5.0
"""Until what is in the state is on disk as well."""
DURABLE_POLL_S: Final = 0.005


async def capture_state(
    config: ServerConfig, datatype: str, driver: Driver, journal: Journal, operations: bool
) -> CapturedState:
    """The state after the longest prefix of `committed` that is executed and ends with an instance.
    `operations`: with those that the journal still tells of."""
    replica = driver.replica
    if replica.awaited_members() is not None:
        raise UsageError("this replica has an empty disk, and does not take part yet: ask another")
    driver.apply_effects()  # so that the journal has all that led to it
    checkpoint, registers = driver.lazy_checkpoint()
    state = LockedRegisters(registers, driver.executor.lock)
    requests: tuple[Request, ...] = ()
    try:
        await wait_until_durable(journal)
        if operations:
            requests = await asyncio.to_thread(_read_operations, Path(config.data), checkpoint)
    except BaseException:
        state.close()
        raise
    head = BackupHeader(
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
    return CapturedState(head, state, requests)


async def wait_until_durable(journal: Journal) -> bool:
    """Is all that the journal has been given? What is not may come to nothing. A disk that has
    failed is not waited for: perhaps that is why somebody wants a copy."""
    journal.request_sync()
    end, tries = journal.end_position, int(DURABLE_TIMEOUT_S / DURABLE_POLL_S)
    while journal.durable_position < end and journal.fault is None and tries:
        tries -= 1
        await asyncio.sleep(DURABLE_POLL_S)
    return journal.durable_position >= end


def _read_operations(folder: Path, checkpoint: Checkpoint) -> tuple[Request, ...]:
    """The last requests of the prefix; none if the journal does not tell of its end."""
    try:
        first, requests = read_committed(folder)
    except StorageFault:
        first, requests = read_committed(folder)  # a new checkpoint removed what was being read
    count = checkpoint.length - first
    return requests[:count] if 0 <= count <= len(requests) else ()
