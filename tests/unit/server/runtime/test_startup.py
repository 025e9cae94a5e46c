"""A replica that takes no part yet says what it waits for, and what to do."""

from typing import Any, cast

import pytest

from creekdb.protocol.membership.configuration import Configuration
from creekdb.schemes.core.replica import Replica
from creekdb.server.runtime.startup import join_blocker


class Waiting:
    """As much of a replica as is asked."""

    index = 0

    def __init__(self, missing: tuple[int, ...] | None, epoch: int) -> None:
        self._missing = missing
        self._configuration = Configuration(epoch, ((0, "a:1"), (1, "b:1"), (2, "c:1")))

    def waits_for(self) -> tuple[int, ...] | None:
        return self._missing

    def configuration(self) -> Configuration:
        return self._configuration


def told(missing: tuple[int, ...] | None, epoch: int = 0) -> str | None:
    waiting: Any = Waiting(missing, epoch)
    return join_blocker(cast(Replica, waiting))


@pytest.mark.parametrize(
    ("missing", "epoch", "advice"),
    [
        ((1, 2), 0, "waits for replica 1, replica 2. Start what is down"),
        ((1,), 0, "if one is lost for good, replace it and then this one"),
        ((), 0, "it fetches the state of the others, then it takes part"),
        ((1,), 2, "member replace 0 HOST:PORT --data DIR'"),
    ],
)
def test_one_that_takes_no_part_says_what_to_do(
    missing: tuple[int, ...], epoch: int, advice: str
) -> None:
    said = told(missing, epoch)
    assert said is not None
    assert said.startswith("its journal was empty")
    assert advice in said


def test_one_that_takes_part_waits_for_nothing() -> None:
    assert told(None, epoch=2) is None
