"""Membership of a live cluster: initial members of a replica, and changes by clients."""

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
"""Operation that adds a member. A strong call with the address of the new replica."""
REMOVE_MEMBER: Final = "creek.members.remove"
"""Operation that removes a member. A strong call with the number of the replica."""


def initial_configuration(config: ServerConfig) -> tuple[ServerConfig, Configuration]:
    """Return the effective configuration of the server, and the members that it starts with.

    The members need not include this replica yet.
    """
    ticket = read_ticket(Path(config.data))
    if ticket is None:
        return config, Configuration(0, tuple(sorted(config.members.items())))
    from_ticket = {"replica": ticket.replica, "members": ticket.addresses, "fresh": False}
    return msgspec.structs.replace(config, **from_ticket), ticket.configuration


def initialise_journal(data_dir: Path) -> bool:
    """Record in the journal of an added replica that it has promised nothing.

    A replica that has started before and does not find this record has lost its journal. Return
    True if the journal was empty. Raise `StorageFault` if it cannot be written.
    """
    ticket = read_ticket(data_dir)
    if ticket is None or ticket.begun:
        return False
    journal = Journal(data_dir)
    try:
        records = journal.open()
        if replay_records(records).promised == NO_BALLOT:
            journal.append([Promised(JOINED_BALLOT)])
            journal.flush()
    finally:
        journal.close()
    write_ticket(msgspec.structs.replace(ticket, begun=True), data_dir)
    return not records


def validate_change(
    name: str, arguments: tuple[Any, ...], configuration: Configuration, reachable: list[int]
) -> Operation:
    """Return the operation for a membership change. Raise `BadValue` if it cannot succeed.

    `reachable` lists the members that are connected, including this one.
    """
    if name == ADD_MEMBER:
        if len(arguments) != 1 or not isinstance(arguments[0], str):
            raise BadValue(f"{ADD_MEMBER} requires the address of the new replica, as HOST:PORT")
        host, port = parse_address(arguments[0])
        if not port or host in WILDCARD_HOSTS:
            raise BadValue(f"peers cannot connect to {arguments[0]}; use an address HOST:PORT")
        for number, address in configuration.members:
            if address == arguments[0]:
                raise BadValue(
                    f"replica {number} has the address {address}; if it lost its data directory, "
                    "remove it first"
                )
        if len(configuration.members) > 1:  # a single member waits for the new one afterwards
            _reject_without_majority(configuration, {*reachable}, len(configuration.members) + 1)
        return configuration.add_operation(configuration.next_replica_id, arguments[0])
    if len(arguments) != 1 or type(arguments[0]) is not int:
        raise BadValue(f"{REMOVE_MEMBER} requires the number of a replica")
    operation = configuration.remove_operation(arguments[0])
    _reject_without_majority(
        configuration, {*reachable} - {arguments[0]}, len(configuration.members) - 1
    )
    return operation


def _reject_without_majority(configuration: Configuration, reachable: set[int], size: int) -> None:
    """Raise `BadValue` if no majority would remain. Such a change would be the last one."""
    remaining = reachable.intersection(configuration.replica_ids)
    if len(remaining) <= size // 2:
        missing = [str(member) for member in configuration.replica_ids if member not in reachable]
        raise BadValue(
            f"rejected: only {len(remaining)} of the {size} members would be reachable "
            f"(missing: {', '.join(missing) or 'none'}); a majority is required"
        )


class MembershipView:
    """Members of the cluster as this replica sees them."""

    def __init__(self, server: "Server", configuration: Configuration) -> None:
        """`configuration` holds the members that the replica starts with."""
        self._server = server
        self.configuration = configuration
        self._last_issued: Dot | None = None
        """Last request of this replica from before the start."""

    @property
    def is_member(self) -> bool:
        return self._server.config.replica in self.configuration.replica_ids

    def validate_change(self, name: str, arguments: tuple[Any, ...]) -> Operation:
        server = self._server
        reachable = [server.config.replica, *server.peers.connected_members()]
        return validate_change(
            name, arguments, server.driver.replica.view.configuration(), reachable
        )

    def refresh(self) -> None:
        """Apply a changed configuration, and stop the server if this replica was removed."""
        server = self._server
        replica = server.driver.replica.view
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
                REPLICA_REMOVED,
                "was removed from its cluster and stops; its data directory can be deleted",
            )
            server.stop_requested.set()

    def blocked_reason(self) -> str | None:
        """Return why the replica does not accept calls yet, or None if it does."""
        replica = self._server.driver.replica.view
        blocker = join_blocker(replica)
        if blocker is not None or not self.is_member:
            return blocker or "it is not admitted yet"
        if self._last_issued is None:
            self._last_issued = replica.last_issued()
        # The clients of this request may call again, and must see it.
        if self._last_issued.event and not replica.is_visible(self._last_issued):
            return "it executes requests that it issued before the start"
        # A call admitted now might use an operation that a peer does not support.
        return (
            None
            if self._server.peers.has_dialled_all()
            else "it queries the operations of its peers"
        )

    async def unblock_when_joined(self) -> None:
        """Admit calls once this replica has joined."""
        server = self._server
        interval_s = server.config.tick_ms / 1000
        await wait_until_joined(server.driver.replica.view, interval_s, server.event_log)
        while self.blocked_reason() is not None:
            await asyncio.sleep(interval_s)
        server.dispatcher.unblock_calls()
