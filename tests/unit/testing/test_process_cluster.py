"""A cluster of processes imports the data type, and converges after faults."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from creekdb import DataType, UsageError
from creekdb.datatypes.kv import KV
from creekdb.testing import ProcessCluster, assert_converges
from creekdb.testing.process_cluster import import_path
from tests.unit.testing.seat_types import book, seats


def test_a_data_type_is_imported_by_its_path() -> None:
    assert import_path(KV) == "kv"
    assert import_path(seats) == "tests.unit.testing.seat_types:seats"
    with pytest.raises(UsageError, match="no module has it as a variable"):
        import_path(DataType("hidden"))


def test_processes_converge_after_a_partition_and_a_kill(tmp_path: Path) -> None:
    cluster = ProcessCluster(seats, tmp_path)
    try:
        mistakes: list[Callable[[], object]] = [
            lambda: cluster.kill(9),
            lambda: cluster.start(-1),
            lambda: cluster.state(3),
            lambda: cluster.connect(3),
            lambda: cluster.partition([9]),
        ]
        for mistake in mistakes:
            with pytest.raises(UsageError, match="replicas are 0 to 2"):
                mistake()
        with pytest.raises(UsageError, match="replica 1 is in two groups"):
            cluster.partition([0, 1], [1, 2])
        cluster.partition([0])
        with cluster.connect(0) as db:
            call = db.weak.begin(book, 9, "ann")
            assert call.tentative == 9
        assert cluster.state(0) == {}
        cluster.heal()
        cluster.kill(2)
        with pytest.raises(UsageError, match="replica 2 has no state: it is down"):
            cluster.state(2)
        assert assert_converges(cluster) == {9: "ann"}
    finally:
        cluster.close()


def test_a_partition_shows_every_stage_of_a_change(tmp_path: Path) -> None:
    cluster = ProcessCluster("kv", tmp_path, keep_changes="1h")
    try:
        with cluster.connect(0) as db, cluster.connect(1) as other:
            db.strong.put("lamp", 0)
            (start,) = db.changes("earliest", follow=False)  # the cluster has an identity
            cluster.partition([0])
            other.strong.increment("lamp", 10)
            with db.changes(start.index + 1, prefix="lamp", view="tentative") as stream:
                assert db.weak.increment("lamp", 1) == 1
                first: Any = next(stream)
                cluster.heal()
                own = [first]
                while own[-1].stage != "final":
                    own += [each for each in [next(stream)] if each.id == first.id]
    finally:
        cluster.close()
    assert (first.stage, first.writes) == ("tentative", (("lamp", 1),))
    assert own[-1].writes == (("lamp", 11),)
    assert any(each.revised for each in own)
