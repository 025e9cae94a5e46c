"""Protection of a live cluster against data directories that were replaced by older copies.

The rules are in `creekdb.protocol.membership.rollback_detection`. The guard keeps the evidence of
this replica in its data directory, and applies the verdict on each peer that connects.
"""

import asyncio
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from creekdb.errors import StorageFault
from creekdb.protocol.effects import DataLossKind, DataLost
from creekdb.protocol.membership.rollback_detection import (
    DirectoryHistory,
    PeerVerdict,
    RollbackDetector,
    Sighting,
    StateEvidence,
    add_start,
)
from creekdb.schemes.core.view import ReplicaView
from creekdb.server.membership.changes import data_loss_fault
from creekdb.server.runtime.config import ServerConfig
from creekdb.server.storage.data_dir import read_json_file, write_json_file
from creekdb.server.transport.peer_link import PeerRejection
from creekdb.wire.counters import ServerCounter
from creekdb.wire.messages import PeerHello

EVIDENCE_FILE_NAME: Final = "evidence.json"
SAVE_INTERVAL_S: Final = 5.0
"""Interval between two writes of the states that peers have reported, in seconds."""
NONCE_BITS: Final = 62


class DirectoryEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the evidence file."""

    history: DirectoryHistory
    sightings: tuple[Sighting, ...] = ()


class GuardPorts(NamedTuple):
    """Outputs of the guard."""

    fail: Callable[[Exception], None]
    """Stops this replica."""
    reconnect_except: Callable[[int], None]
    """Reconnects this replica to all peers except one."""


def describe_conflict(peer: int, verdict: PeerVerdict) -> str | None:
    """Return why the states of this replica and a peer cannot both be kept, or None."""
    if (instance := verdict.conflicting_instance) is not None:
        problem = f"have decided instance {instance} differently"
    elif (ids := verdict.conflicting_ids) is not None:
        problem = f"may hold different calls {ids.first} to {ids.last} of replica {ids.replica}"
    else:
        return None
    return (
        f"replica {peer} and this replica {problem}: a member acted with an older copy of its data "
        "directory. Keep the state of one of the two. Move the data directory of the other away, "
        "together with those of that member and of all replicas that agree with the other"
    )


class RollbackGuard:
    """Evidence of one live replica about its own data directory and those of its peers."""

    def __init__(self, config: ServerConfig, view: ReplicaView, ports: GuardPorts) -> None:
        self._config = config
        self._view = view
        self._ports = ports
        self._path = Path(config.data) / EVIDENCE_FILE_NAME
        self._detector: RollbackDetector | None = None
        """None before the start is on disk. Until then, this replica shows no evidence."""
        self._saved: tuple[Sighting, ...] = ()
        self._save_lock = threading.Lock()
        self._has_new_sighting = asyncio.Event()
        self._rejected_starts: set[tuple[int, int]] = set()
        """Number of each rejected peer, and the nonce of its start."""
        self.conflicts: dict[int, str] = {}
        """Peers whose state contradicts that of this replica, and the text of each rejection."""

    def open(self) -> None:
        """Record this start of the replica, whose state is recovered.

        If the disk is full, this start shows no evidence. Raise `StorageFault` if the file cannot
        be read.
        """
        recorded = read_json_file(self._path, DirectoryEvidence)
        history = add_start(
            None if recorded is None else recorded.history,
            secrets.randbits(NONCE_BITS),
            self._view.awaited_members() is not None,
            self._view.own_state(),
        )
        sightings = () if recorded is None else recorded.sightings
        with suppress(StorageFault):
            write_json_file(self._path, DirectoryEvidence(history=history, sightings=sightings))
            self._detector = RollbackDetector(self._config.replica, history, sightings, self._view)

    def evidence(self) -> StateEvidence | None:
        return None if self._detector is None else self._detector.evidence()

    def check(self, hello: PeerHello) -> PeerRejection | None:
        """Return the reason to reject a peer, or None. Stop this replica if it has lost data."""
        if self._detector is None or hello.evidence is None:
            return None
        peer, verdict = hello.replica, self._detector.judge(hello.replica, hello.evidence)
        if verdict.own_loss is not None:
            self._ports.fail(self._own_fault(peer, verdict.own_loss))
            return PeerRejection(ServerCounter.ROLLED_BACK, "this replica has lost data")
        if verdict.peer_loss is not None:
            self._exchange_evidence_again(peer, hello.evidence.history.last.nonce)
            message = (
                f"data lost: the data directory of replica {peer} is an older copy: "
                f"{verdict.peer_loss}; move it away, and start replica {peer} as one that lost its "
                "disk"
            )
            return PeerRejection(ServerCounter.ROLLED_BACK, message)
        if (conflict := describe_conflict(peer, verdict)) is not None:
            self.conflicts[peer] = conflict
            return PeerRejection(ServerCounter.CONFLICTING_STATE, conflict)
        return None

    def record(self, hello: PeerHello) -> None:
        """Record an accepted peer."""
        self.conflicts.pop(hello.replica, None)
        if (
            self._detector is not None
            and hello.evidence is not None
            and self._detector.record(hello.replica, hello.evidence)
        ):
            self._has_new_sighting.set()

    async def save_periodically(self) -> None:
        """Save each new sighting at once, and the reported states at intervals."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(SAVE_INTERVAL_S):
                    await self._has_new_sighting.wait()
            self._has_new_sighting.clear()
            if (changed := self._changed_evidence()) is not None:
                await asyncio.to_thread(self._save, changed)

    def close(self) -> None:
        """Save the evidence of a replica that stops."""
        if (changed := self._changed_evidence()) is not None:
            self._save(changed)

    def _changed_evidence(self) -> DirectoryEvidence | None:
        """Return the evidence if it differs from the saved one, or None."""
        detector = self._detector
        if detector is None or (sightings := detector.sightings()) == self._saved:
            return None
        return DirectoryEvidence(history=detector.history, sightings=sightings)

    def _save(self, evidence: DirectoryEvidence) -> None:
        with self._save_lock, suppress(StorageFault):  # the next save tries again
            write_json_file(self._path, evidence)
            self._saved = evidence.sightings

    def _exchange_evidence_again(self, peer: int, nonce: int) -> None:
        """Reconnect to the other peers once: one of them may have decided with this peer."""
        if (peer, nonce) not in self._rejected_starts:
            self._rejected_starts.add((peer, nonce))
            self._ports.reconnect_except(peer)

    def _own_fault(self, peer: int, loss: str) -> StorageFault:
        data, detector = self._config.data, self._detector
        assert detector is not None
        if len(self._view.configuration().members) == 1:
            return data_loss_fault(DataLost(DataLossKind.MEMBERS, peer), self._config)
        issued = self._view.own_state().last_event - detector.history.last.state.last_event
        only_here = (
            f". The {issued} requests that it has issued since its start are only in {data}"
            if issued
            else ""
        )
        return StorageFault(
            f"data lost: {data} is an older copy, as replica {peer} has recorded: {loss}. "
            f"Promises and calls that counted as durable are gone. Move {data} away, and start "
            f"this replica as one that lost its disk{only_here}"
        )
