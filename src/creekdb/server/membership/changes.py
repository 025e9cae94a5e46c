"""Members of a live cluster that change: with whom a replica begins, and what may be asked for.

The members of a cluster that runs, as one of its replicas sees them, and whether it is one.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from creekdb.errors import BadValue
from creekdb.protocol.checkpoint.compaction import found_on_disk
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.membership.disk_loss_recovery import ENTERED
from creekdb.protocol.messages import Promised
from creekdb.protocol.request import Operation
from creekdb.server.membership.join_ticket import read_ticket, write_ticket
from creekdb.server.runtime.config import EVERYWHERE, ServerConfig
from creekdb.server.runtime.startup import wait_for_others, what_it_waits_for
from creekdb.server.storage.journal import Journal
from creekdb.wire.addresses import address_of
from creekdb.wire.event_log import REPLICA_REMOVED

if TYPE_CHECKING:
    from creekdb.server.runtime.server import Server

ADD: Final = "creek.members.add"
"""What a client calls, strongly, with the address of a new replica."""
REMOVE: Final = "creek.members.remove"
"""The same, with the number of the replica."""


def begun(config: ServerConfig) -> tuple[ServerConfig, Configuration]:
    """As it is to run, and the members that it begins with: it may not be one of them yet."""
    ticket = read_ticket(Path(config.data))
    if ticket is None:
        return config, Configuration(0, tuple(sorted(config.members.items())))
    own = {"replica": ticket.replica, "members": ticket.addresses, "fresh": False}
    return msgspec.structs.replace(config, **own), ticket.configuration


def begin_journal(folder: Path) -> bool:
    """Of one that was added, and is started for the first time: that it has promised nothing yet.
    Who has begun and does not find that has lost it. True if nothing was there before. Raises
    `StorageFault` if it cannot be written."""
    ticket = read_ticket(folder)
    if ticket is None or ticket.begun:
        return False
    journal = Journal(folder)
    try:
        records = journal.open()
        if found_on_disk(records).promised == NO_BALLOT:
            journal.append([Promised(ENTERED)])
            journal.flush()
    finally:
        journal.close()
    write_ticket(msgspec.structs.replace(ticket, begun=True), folder)
    return not records


def change_asked(
    name: str, arguments: tuple[Any, ...], configuration: Configuration, reached: list[int]
) -> Operation:
    """The operation that a call stands for; `BadValue` with the reason when it cannot work.
    `reached`: the members that can be heard here, this one among them."""
    if name == ADD:
        if len(arguments) != 1 or not isinstance(arguments[0], str):
            raise BadValue(f"{ADD} takes the address of the new replica, as HOST:PORT")
        host, port = address_of(arguments[0])
        if not port or host in EVERYWHERE:
            raise BadValue(f"{arguments[0]} is not where others find a replica: write HOST:PORT")
        for number, address in configuration.members:
            if address == arguments[0]:
                raise BadValue(
                    f"{address} is where replica {number} is found: if it lost its folder, remove "
                    "it first"
                )
        if len(configuration.members) > 1:  # one that is alone waits for the other, then
            _refuse_without_majority(configuration, {*reached}, len(configuration.members) + 1)
        return configuration.adding(configuration.next_number, arguments[0])
    if len(arguments) != 1 or type(arguments[0]) is not int:
        raise BadValue(f"{REMOVE} takes the number of a replica")
    operation = configuration.removing(arguments[0])
    _refuse_without_majority(
        configuration, {*reached} - {arguments[0]}, len(configuration.members) - 1
    )
    return operation


def _refuse_without_majority(configuration: Configuration, reached: set[int], size: int) -> None:
    """The change would be made, and nothing after it."""
    up = reached.intersection(configuration.numbers)
    if len(up) <= size // 2:
        away = [str(each) for each in configuration.numbers if each not in reached]
        raise BadValue(
            f"of the {size} members that there would be, only {len(up)} can be reached from here, "
            f"and that is no majority; out of reach or to be removed: {', '.join(away) or 'none'}"
        )


class Company:
    def __init__(self, server: "Server", configuration: Configuration) -> None:
        """`configuration`: the one that it begins with."""
        self._server = server
        self.configuration = configuration
        self._issued: Dot | None = None
        """The last request from before it could be called."""

    @property
    def is_member(self) -> bool:
        return self._server.config.replica in self.configuration.numbers

    def change_asked(self, name: str, arguments: tuple[Any, ...]) -> Operation:
        server = self._server
        reached = [server.config.replica, *server.peers.connected()]
        return change_asked(name, arguments, server.driver.replica.configuration(), reached)

    def look(self) -> None:
        """Have the members been changed, and is this replica still one of them?"""
        server = self._server
        replica = server.driver.replica
        configuration = replica.configuration()
        if configuration.epoch != self.configuration.epoch:
            self.configuration = configuration
            server.peers.reconfigure(configuration)
            server.digests.reconfigure(configuration.numbers)
            members = ", ".join(map(str, configuration.numbers))
            server.events.info("members.changed", f"members are {members}", members=members)
            server.desk.look_again()
        if replica.is_dismissed() and not server.over.is_set():
            server.events.warning(
                REPLICA_REMOVED, "was removed from its cluster: it stops, and its folder can go"
            )
            server.over.set()

    def why_closed(self) -> str | None:
        """Why it cannot be called yet; None when it can."""
        replica = self._server.driver.replica
        what = what_it_waits_for(replica)
        if what is not None or not self.is_member:
            return what or "it is not let in yet"
        if self._issued is None:
            self._issued = replica.last_issued()
        # Those for whom it was issued may call again, and have to see it.
        if self._issued.event and not replica.is_seen(self._issued):
            return "it executes what was issued here before"
        # What it would take on now may be more than those can do who are there.
        return None if self._server.peers.all_tried() else "it asks the others what they can do"

    async def open_when_let_in(self) -> None:
        """Clients wait until this replica takes part."""
        server = self._server
        beat_s = server.config.tick_ms / 1000
        await wait_for_others(server.driver.replica, beat_s, server.events)
        while self.why_closed() is not None:
            await asyncio.sleep(beat_s)
        server.desk.open()
