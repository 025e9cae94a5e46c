"""Taking a copy of what a live replica has committed."""

import asyncio
from importlib.metadata import version
from pathlib import Path
from typing import Final

from creekdb.cluster.backup import Head
from creekdb.cluster.config import ServerConfig
from creekdb.cluster.copies import Gated, Taken
from creekdb.cluster.driver import Driver, now_us
from creekdb.cluster.journal import Journal
from creekdb.cluster.retelling import told_by
from creekdb.errors import StorageFault, UsageError
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.request import Request

PATIENCE_S: Final = 5.0
"""Until what is in the state is on disk as well."""
LOOK_S: Final = 0.005


async def take(
    config: ServerConfig, datatype: str, driver: Driver, journal: Journal, operations: bool
) -> Taken:
    """The state after the longest prefix of `committed` that is executed and ends with an instance.
    `operations`: with those that the journal still tells of."""
    replica = driver.replica
    if replica.waits_for() is not None:
        raise UsageError("this replica has an empty disk, and does not take part yet: ask another")
    driver.carry_out()  # so that the journal has all that led to it
    checkpoint, registers = driver.draft()
    state = Gated(registers, driver.executor.gate)
    requests: tuple[Request, ...] = ()
    try:
        await until_durable(journal)
        if operations:
            requests = await asyncio.to_thread(_told, Path(config.data), checkpoint)
    except BaseException:
        state.close()
        raise
    head = Head(
        cluster=config.cluster,
        replica=config.replica,
        members=replica.configuration().numbers,
        datatype=datatype,
        imported=config.datatype,
        scheme=config.scheme,
        release=version("creekdb"),
        taken_us=now_us(),
        length=checkpoint.length,
        instance=checkpoint.instance,
        ids=checkpoint.ids,
        timestamp=checkpoint.timestamp,
        first=checkpoint.length - len(requests),
    )
    return Taken(head, state, requests)


async def until_durable(journal: Journal) -> bool:
    """Is all that the journal has been given? What is not may come to nothing. A disk that has
    failed is not waited for: perhaps that is why somebody wants a copy."""
    journal.hurry()
    end, tries = journal.end, int(PATIENCE_S / LOOK_S)
    while journal.durable < end and journal.failed is None and tries:
        tries -= 1
        await asyncio.sleep(LOOK_S)
    return journal.durable >= end


def _told(folder: Path, checkpoint: Checkpoint) -> tuple[Request, ...]:
    """The last requests of the prefix; none if the journal does not tell of its end."""
    try:
        first, requests = told_by(folder)
    except StorageFault:
        first, requests = told_by(folder)  # a new checkpoint removed what was being read
    count = checkpoint.length - first
    return requests[:count] if 0 <= count <= len(requests) else ()
