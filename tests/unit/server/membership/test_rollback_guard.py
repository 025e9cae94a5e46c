"""Evidence file of a live replica."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from creekdb.errors import StorageFault
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.rollback_detection import ReportedState, StateEvidence, add_start
from creekdb.protocol.request import Batch
from creekdb.schemes.core.view import ReplicaView
from creekdb.server.membership import rollback_guard
from creekdb.server.membership.rollback_guard import (
    EVIDENCE_FILE_NAME,
    GuardPorts,
    RollbackGuard,
)
from creekdb.server.runtime.config import ServerConfig
from creekdb.wire.counters import ServerCounter
from creekdb.wire.messages import WIRE_VERSION, PeerHello


class StubView:
    """Replica that has reported nothing. A test sets its decisions."""

    def __init__(self) -> None:
        self.decisions: tuple[Batch, ...] = ()

    def awaited_members(self) -> tuple[int, ...] | None:
        return None

    def own_state(self) -> ReportedState:
        return ReportedState(3, 2)

    def reported_state(self, replica: int) -> ReportedState:
        return ReportedState(0, 0)

    def last_decisions(self, limit: int) -> tuple[int, tuple[Batch, ...]]:
        return 0, self.decisions

    def removed_replicas(self) -> tuple[int, ...]:
        return ()


class GuardFixture:
    """Guard of replica 0 in a directory, and its outputs."""

    def __init__(self, directory: Path) -> None:
        self.failures: list[Exception] = []
        self.reconnections: list[int] = []
        config = ServerConfig(
            replica=0,
            members={0: "127.0.0.1:1", 1: "127.0.0.1:2"},
            clients="127.0.0.1:3",
            data=str(directory),
        )
        ports = GuardPorts(self.failures.append, self.reconnections.append)
        self.view = StubView()
        self.guard = RollbackGuard(config, cast(ReplicaView, self.view), ports)
        self.guard.open()


def hello(evidence: StateEvidence | None, replica: int = 1) -> PeerHello:
    return PeerHello(WIRE_VERSION, "creek", replica, (0, 1), "kv", evidence=evidence)


def evidence_of(nonce: int, last_event: int) -> StateEvidence:
    return StateEvidence(add_start(None, nonce, False, ReportedState(last_event, 0)))


async def test_each_start_is_recorded_before_it_is_shown(tmp_path: Path) -> None:
    first, second = (GuardFixture(tmp_path).guard.evidence() for _ in range(2))
    assert first is not None
    assert second is not None
    assert second.history.starts[:1] == first.history.starts
    assert [each.number for each in second.history.starts] == [1, 2]
    assert second.history.last.state == ReportedState(3, 2)


async def test_sightings_survive_a_restart(tmp_path: Path) -> None:
    first = GuardFixture(tmp_path)
    accepted = hello(evidence_of(1, 5))
    assert first.guard.check(accepted) is None
    first.guard.record(accepted)
    first.guard.close()

    second = GuardFixture(tmp_path)
    rejection = second.guard.check(hello(evidence_of(2, 4)))
    assert rejection is not None
    assert rejection.reason == ServerCounter.ROLLED_BACK
    assert "the data directory of replica 1 is an older copy" in rejection.message
    assert second.failures == []


async def test_the_other_peers_are_reconnected_once_for_each_rolled_back_start(
    tmp_path: Path,
) -> None:
    fixture = GuardFixture(tmp_path)
    fixture.guard.record(hello(evidence_of(1, 5)))
    for nonce in (2, 2, 3):
        fixture.guard.check(hello(evidence_of(nonce, 4)))
    assert fixture.reconnections == [1, 1]


async def test_a_replica_that_cannot_write_shows_no_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StorageFault("no space left")

    monkeypatch.setattr(rollback_guard, "write_json_file", fail)
    fixture = GuardFixture(tmp_path)
    assert fixture.guard.evidence() is None
    assert fixture.guard.check(hello(evidence_of(1, 5))) is None
    fixture.guard.record(hello(evidence_of(1, 5)))
    fixture.guard.close()
    assert not (tmp_path / EVIDENCE_FILE_NAME).exists()


async def test_a_new_sighting_is_saved_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run_inline(function: Callable[..., None], *arguments: Any) -> None:
        function(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", run_inline)
    fixture = GuardFixture(tmp_path)
    saving = asyncio.create_task(fixture.guard.save_periodically())
    await asyncio.sleep(0)
    fixture.guard.record(hello(evidence_of(1, 5)))
    for _ in range(10):
        await asyncio.sleep(0)
    saving.cancel()

    restarted = GuardFixture(tmp_path).guard.evidence()
    assert restarted is not None
    assert [each.replica for each in restarted.sightings] == [1]


async def test_a_conflict_ends_when_the_peer_is_accepted(tmp_path: Path) -> None:
    fixture = GuardFixture(tmp_path)
    fixture.view.decisions = ((Dot(0, 1),),)
    accepted = evidence_of(1, 5)
    conflicting = msgspec.structs.replace(accepted, decision_digests=(0,))

    rejection = fixture.guard.check(hello(conflicting))
    assert rejection is not None
    assert rejection.reason == ServerCounter.CONFLICTING_STATE
    assert fixture.guard.conflicts == {1: rejection.message}
    assert fixture.guard.check(hello(accepted)) is None
    fixture.guard.record(hello(accepted))
    assert fixture.guard.conflicts == {}


async def test_peers_without_evidence_are_accepted(tmp_path: Path) -> None:
    fixture = GuardFixture(tmp_path)
    assert fixture.guard.check(hello(None)) is None
    fixture.guard.record(hello(None))
    shown = fixture.guard.evidence()
    assert shown is not None
    assert shown.sightings == ()
