"""How a replica is, for whoever asks."""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from creekdb.cluster.server import Server


def status_of(server: "Server") -> dict[str, Any]:
    replica = server.driver.replica
    failed = server.journal.failed
    return {
        "cluster": server.config.cluster,
        "replica": server.config.replica,
        "process": os.getpid(),
        "members": list(server.company.configuration.numbers),
        "found_at": {str(each): at for each, at in server.company.configuration.members},
        "epoch": server.company.configuration.epoch,
        "is_member": server.company.is_member,
        "datatype": server.desk.datatype.name,
        "scheme": server.config.scheme,
        "leader": replica.leader(),
        "connected": server.peers.connected(),
        "silent_s": {str(each): round(s, 3) for each, s in sorted(server.peers.silent_s().items())},
        "addresses": {str(each): at for each, at in sorted(server.peers.clients.items())},
        "committed": replica.committed_length(),
        "tentative": replica.tentative_length(),
        "backlog": server.driver.backlog,
        "under_way": server.desk.under_way,
        "undecided": len(server.undecided),
        "clients": len(server.desk.connections),
        "executions": server.driver.executions,
        "long_operations": server.watchdog.status(),
        "refused": server.refused_by_reason(),
        "clocks_ahead_us": {str(peer): us for peer, us in sorted(replica.drift_us.items())},
        "disk": None if failed is None else str(failed),
        "waits_for": replica.waits_for(),
        "why_closed": server.desk.why_closed(),
        "digests": server.digests.status(),
        "failure": None if server.failure is None else str(server.failure),
    }
