"""Members of a live cluster that change: with whom a replica begins, and what may be asked for.

The members of a cluster that runs, as one of its replicas sees them, and whether it is one.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from creekdb.errors import BadValue
from creekdb.protocol.checkpoint.compaction import replay_records
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.membership.disk_loss_recovery import JOINED_BALLOT
from creekdb.protocol.messages import Promised
from creekdb.protocol.request import Operation
from creekdb.server.membership.join_ticket import read_ticket, write_ticket
from creekdb.server.runtime.config import WILDCARD_HOSTS, ServerConfig
from creekdb.server.runtime.startup import join_blocker, wait_until_joined
from creekdb.server.storage.journal import Journal
from creekdb.wire.addresses import parse_address
from creekdb.wire.event_log import REPLICA_REMOVED

if TYPE_CHECKING:
    from creekdb.server.runtime.server import Server

ADD_MEMBER: Final = "creek.members.add"
"""What a client calls, strongly, with the address of a new replica."""
REMOVE_MEMBER: Final = "creek.members.remove"
"""The same, with the number of the replica."""


def initial_configuration(config: ServerConfig) -> tuple[ServerConfig, Configuration]:
    """As it is to run, and the members that it begins with: it may not be one of them yet."""
    ticket = read_ticket(Path(config.data))
    if ticket is None:
        return config, Configuration(0, tuple(sorted(config.members.items())))
    own = {"replica": ticket.replica, "members": ticket.addresses, "fresh": False}
    return msgspec.structs.replace(config, **own), ticket.configuration


def initialise_journal(folder: Path) -> bool:
    """Of one that was added, and is started for the first time: that it has promised nothing yet.
    Who has begun and does not find that has lost it. True if nothing was there before. Raises
    `StorageFault` if it cannot be written."""
    ticket = read_ticket(folder)
    if ticket is None or ticket.begun:
        return False
    journal = Journal(folder)
    try:
        records = journal.open()
        if replay_records(records).promised == NO_BALLOT:
            journal.append([Promised(JOINED_BALLOT)])
            journal.flush()
    finally:
        journal.close()
    write_ticket(msgspec.structs.replace(ticket, begun=True), folder)
    return not records


def validate_change(
    name: str, arguments: tuple[Any, ...], configuration: Configuration, reached: list[int]
) -> Operation:
    """The operation that a call stands for; `BadValue` with the reason when it cannot work.
    `reached`: the members that can be heard here, this one among them."""
    if name == ADD_MEMBER:
        if len(arguments) != 1 or not isinstance(arguments[0], str):
            raise BadValue(f"{ADD_MEMBER} takes the address of the new replica, as HOST:PORT")
        host, port = parse_address(arguments[0])
        if not port or host in WILDCARD_HOSTS:
            raise BadValue(f"{arguments[0]} is not where others find a replica: write HOST:PORT")
        for number, address in configuration.members:
            if address == arguments[0]:
                raise BadValue(
                    f"{address} is where replica {number} is found: if it lost its folder, remove "
                    "it first"
                )
        if len(configuration.members) > 1:  # one that is alone waits for the other, then
            _reject_without_majority(configuration, {*reached}, len(configuration.members) + 1)
        return configuration.add_operation(configuration.next_replica_id, arguments[0])
    if len(arguments) != 1 or type(arguments[0]) is not int:
        raise BadValue(f"{REMOVE_MEMBER} takes the number of a replica")
    operation = configuration.remove_operation(arguments[0])
    _reject_without_majority(
        configuration, {*reached} - {arguments[0]}, len(configuration.members) - 1
    )
    return operation


def _reject_without_majority(configuration: Configuration, reached: set[int], size: int) -> None:
    """The change would be made, and nothing after it."""
    up = reached.intersection(configuration.replica_ids)
    if len(up) <= size // 2:
        away = [str(each) for each in configuration.replica_ids if each not in reached]
        raise BadValue(
            f"of the {size} members that there would be, only {len(up)} can be reached from here, "
            f"and that is no majority; out of reach or to be removed: {', '.join(away) or 'none'}"
        )


class MembershipView:
    def __init__(self, server: "Server", configuration: Configuration) -> None:
        """`configuration`: the one that it begins with."""
        self._server = server
        self.configuration = configuration
        self._last_issued: Dot | None = None
        """The last request from before it could be called."""

    @property
    def is_member(self) -> bool:
        return self._server.config.replica in self.configuration.replica_ids

    def validate_change(self, name: str, arguments: tuple[Any, ...]) -> Operation:
        server = self._server
        reached = [server.config.replica, *server.peers.connected_members()]
        return validate_change(name, arguments, server.driver.replica.configuration(), reached)

    def refresh(self) -> None:
        """Have the members been changed, and is this replica still one of them?"""
        server = self._server
        replica = server.driver.replica
        configuration = replica.configuration()
        if configuration.epoch != self.configuration.epoch:
            self.configuration = configuration
            server.peers.reconfigure(configuration)
            server.divergence.reconfigure(configuration.replica_ids)
            members = ", ".join(map(str, configuration.replica_ids))
            server.event_log.info("members.changed", f"members are {members}", members=members)
            server.dispatcher.recheck_dependencies()
        if replica.can_shut_down() and not server.stop_requested.is_set():
            server.event_log.warning(
                REPLICA_REMOVED, "was removed from its cluster: it stops, and its folder can go"
            )
            server.stop_requested.set()

    def blocked_reason(self) -> str | None:
        """Why it cannot be called yet; None when it can."""
        replica = self._server.driver.replica
        what = join_blocker(replica)
        if what is not None or not self.is_member:
            return what or "it is not let in yet"
        if self._last_issued is None:
            self._last_issued = replica.last_issued()
        # Those for whom it was issued may call again, and have to see it.
        if self._last_issued.event and not replica.is_visible(self._last_issued):
            return "it executes what was issued here before"
        # What it would take on now may be more than those can do who are there.
        return (
            None if self._server.peers.has_dialled_all() else "it asks the others what they can do"
        )

    async def unblock_when_joined(self) -> None:
        """Clients wait until this replica takes part."""
        server = self._server
        beat_s = server.config.tick_ms / 1000
        await wait_until_joined(server.driver.replica, beat_s, server.event_log)
        while self.blocked_reason() is not None:
            await asyncio.sleep(beat_s)
        server.dispatcher.unblock_calls()
