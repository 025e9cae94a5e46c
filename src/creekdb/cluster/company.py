"""The members of a cluster that runs, as one of its replicas sees them, and whether it is one."""

import asyncio
from typing import TYPE_CHECKING, Any

from creekdb.cluster.beginning import wait_for_others, what_it_waits_for
from creekdb.cluster.logs import REPLICA_REMOVED
from creekdb.cluster.membership import change_asked
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.request import Operation

if TYPE_CHECKING:
    from creekdb.cluster.server import Server


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
