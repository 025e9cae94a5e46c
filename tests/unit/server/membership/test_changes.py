"""Membership: a replica that has not joined reports its blocker and a remedy."""

from typing import Any, cast

import pytest

from creekdb.protocol.membership.configuration import Configuration
from creekdb.schemes.core.view import ReplicaView
from creekdb.server.membership.changes import join_blocker


class FakeReplica:
    """Replica with the members that it waits for."""

    index = 0

    def __init__(self, missing: tuple[int, ...] | None, epoch: int) -> None:
        self._missing = missing
        self._configuration = Configuration(epoch, ((0, "a:1"), (1, "b:1"), (2, "c:1")))

    def awaited_members(self) -> tuple[int, ...] | None:
        return self._missing

    def must_be_replaced(self) -> bool:
        return self._configuration.epoch > 0

    def configuration(self) -> Configuration:
        return self._configuration


def blocker(missing: tuple[int, ...] | None, epoch: int = 0) -> str | None:
    replica: Any = FakeReplica(missing, epoch)
    return join_blocker(cast(ReplicaView, replica))


@pytest.mark.parametrize(
    ("missing", "epoch", "remedy"),
    [
        ((1, 2), 0, "waits for replica 1, replica 2; start the members that are down"),
        ((1,), 0, "or replace a lost one and then this one"),
        ((), 0, "fetches the state of its peers and then joins"),
        ((1,), 2, "member replace 0 HOST:PORT --data DIR'"),
    ],
)
def test_blocker_names_the_remedy(missing: tuple[int, ...], epoch: int, remedy: str) -> None:
    message = blocker(missing, epoch)
    assert message is not None
    assert message.startswith("the journal was empty")
    assert remedy in message


def test_joined_replica_has_no_blocker() -> None:
    assert blocker(None, epoch=2) is None
