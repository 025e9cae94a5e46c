"""Membership of a live cluster: initial members of a replica, and changes by clients."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final, assert_never

import msgspec

from creekdb.errors import BadValue, StorageFault
from creekdb.protocol.checkpoint.replay import replay_records
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.effects import DataLossKind, DataLost
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.membership.disk_loss_recovery import JOINED_BALLOT
from creekdb.protocol.messages import Promised
from creekdb.protocol.request import Operation
from creekdb.schemes.core.view import ReplicaView
from creekdb.server.membership.join_ticket import read_ticket, write_ticket
from creekdb.server.runtime.config import WILDCARD_HOSTS, ServerConfig
from creekdb.server.storage.journal import Journal
from creekdb.server.transport.peers import PeerNetwork
from creekdb.wire.addresses import parse_address
from creekdb.wire.event_log import EventLog, EventName

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


def initialise_journal(data_dir: Path, owner: int) -> bool:
    """Record in the journal of an added replica that it has promised nothing.

    A replica that has started before and does not find this record has lost its journal. Return
    True if the journal was empty. Raise `StorageFault` if it cannot be written.
    """
    ticket = read_ticket(data_dir)
    if ticket is None or ticket.begun:
        return False
    with closing(Journal(data_dir, owner=owner)) as journal:
        records = journal.open()
        if replay_records(records).promised == NO_BALLOT:
            journal.append([Promised(JOINED_BALLOT)])
            journal.flush()
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


def join_blocker(replica: ReplicaView) -> str | None:
    """Return why a replica that started empty has not joined, with a remedy. None if it has."""
    missing = replica.awaited_members()
    if missing is None:
        return None
    if replica.must_be_replaced():
        return (
            "the journal was empty and the members have changed: peers that hold the promises of "
            "this replica may be gone, so it cannot join again. Replace it with a new one: "
            f"'creek member replace {replica.index} HOST:PORT --data DIR'"
        )
    if not missing:
        return "the journal was empty: this replica fetches the state of its peers and then joins"
    names = ", ".join(f"replica {peer}" for peer in missing)
    return (
        "the journal was empty: this replica joins after every other member has sent its state. It "
        f"waits for {names}; start the members that are down, or replace a lost one and then this "
        "one ('creek member replace')"
    )


def data_loss_fault(lost: DataLost, config: ServerConfig) -> StorageFault:
    """Return the failure of a replica whose disk has lost data, with a remedy."""
    match lost.kind:
        case DataLossKind.MEMBERS:
            return StorageFault(
                f"data lost: this replica admitted members that {config.data} does not contain. "
                "Records that counted as durable are gone, and it may make no more promises. "
                "Replace it with a new replica: "
                f"'creek member replace {config.replica} HOST:PORT --data DIR'"
            )
        case DataLossKind.REQUESTS:
            return StorageFault(
                f"data lost: peers hold requests of this replica that {config.data} does not "
                "contain. Records that counted as durable are gone, or the directory is an older "
                f"copy. Move {config.data} away, and start this replica as one that lost its disk"
            )
        case _:
            assert_never(lost.kind)


class MembershipView:
    """Members of the cluster as this replica sees them."""

    def __init__(
        self,
        replica: ReplicaView,
        peers: PeerNetwork,
        configuration: Configuration,
        events: EventLog,
        on_change: Callable[[Configuration], None],
        request_stop: Callable[[], None],
    ) -> None:
        """`configuration` holds the members that the replica starts with.

        `on_change` is called with each later configuration, and `request_stop` when this replica
        was removed and can stop.
        """
        self._replica = replica
        self._peers = peers
        self._events = events
        self._on_change = on_change
        self._request_stop = request_stop
        self.configuration = configuration
        self.is_member = replica.index in configuration.replica_ids
        self.accepts_calls = False
        """True once this replica has joined. Calls wait until then."""
        self._is_removed = False
        self._last_issued: Dot | None = None
        """Last request of this replica from before the start."""

    def connected_members(self) -> list[int]:
        return self._peers.connected_members()

    def can_commit(self, silence_s_max: float) -> bool:
        """True if neither the leader nor a majority has been silent for so long."""
        silence_s = self._peers.silence_by_member_s()
        audible = [each for each, each_s in silence_s.items() if each_s < silence_s_max]
        audible.append(self._replica.index)
        has_majority = 2 * len(audible) > len(self.configuration.members)
        return has_majority and self._replica.leader() in audible

    def validate_change(self, name: str, arguments: tuple[Any, ...]) -> Operation:
        reachable = [self._replica.index, *self._peers.connected_members()]
        return validate_change(name, arguments, self._replica.configuration(), reachable)

    def refresh(self) -> None:
        """Apply a changed configuration, and stop the server if this replica was removed."""
        configuration = self._replica.configuration()
        if configuration.epoch != self.configuration.epoch:
            self.configuration = configuration
            self.is_member = self._replica.index in configuration.replica_ids
            members = ", ".join(map(str, configuration.replica_ids))
            self._events.info(EventName.MEMBERS_CHANGED, f"members are {members}", members=members)
            self._on_change(configuration)
        if self._replica.can_shut_down() and not self._is_removed:
            self._is_removed = True
            self._events.warning(
                EventName.REPLICA_REMOVED,
                "was removed from its cluster and stops; its data directory can be deleted",
            )
            self._request_stop()

    def blocked_reason(self) -> str | None:
        """Return why the replica does not accept calls yet, or None if it does."""
        blocker = join_blocker(self._replica)
        if blocker is not None or not self.is_member:
            return blocker or "it is not admitted yet"
        if self._last_issued is None:
            self._last_issued = self._replica.last_issued()
        # The clients of this request may call again, and must see it.
        if self._last_issued.event and not self._replica.is_visible(self._last_issued):
            return "it executes requests that it issued before the start"
        # A call admitted now might use an operation that a peer does not support.
        has_dialled_all = self._peers.has_dialled_all()
        return None if has_dialled_all else "it queries the operations of its peers"

    def try_accept_calls(self) -> bool:
        """Accept calls if nothing blocks them. Return True if calls are accepted now."""
        self.accepts_calls = self.blocked_reason() is None
        return self.accepts_calls

    async def wait_until_joined(self, interval_s: float, report_after_s: float) -> None:
        """Wait until this replica has joined and may accept calls.

        A long wait for the state of its peers is logged once for each set of members.
        """
        loop, replica = asyncio.get_running_loop(), self._replica
        report_at_s, epoch = loop.time() + report_after_s, -1
        while (reason := join_blocker(replica)) is not None:
            if loop.time() >= report_at_s and epoch != replica.configuration().epoch:
                epoch, missing = replica.configuration().epoch, replica.awaited_members()
                self._events.warning(EventName.REPLICA_WAITS, reason, waits_for=missing)
            await asyncio.sleep(interval_s)
        if epoch >= 0:
            self._events.info(EventName.REPLICA_ENTERED, "has joined the cluster")
        while not self.try_accept_calls():
            await asyncio.sleep(interval_s)
