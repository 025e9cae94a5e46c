"""Connections between real processes that are cut, in both directions or in one."""

from pathlib import Path

import pytest

from creekdb.client import Unknown
from tests.cluster.faults_story import Cluster, tell


@pytest.mark.parametrize("silently", [False, True])
def test_both_sides_go_on_weakly_and_only_the_larger_one_strongly(
    silently: bool, tmp_path: Path
) -> None:
    async def story(cluster: Cluster) -> None:
        first = await cluster.leader()
        leader, other, *rest = ((first + each) % 5 for each in range(5))
        cluster.links.divide((leader, other), silently)
        smaller = await cluster.load(60, at=[(leader,), (other,)], weak_only=True)
        larger = await cluster.load(90, at=[(each,) for each in rest])
        await smaller.ends()
        await larger.ends()
        db = await cluster.client(other)
        with pytest.raises(Unknown, match="no stable answer"):
            await db.strong.within(0.3).put("too late", 1)
        waits = db.strong.increment("patience")
        assert await waits.tentative == 1
        cluster.links.mend()
        assert await waits == 1

    tell(tmp_path, story, replicas=5)


def test_a_leader_that_is_not_heard_is_replaced(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        leader = await cluster.leader()
        others = [each for each in cluster.processes.all if each != leader]
        load = await cluster.load(150, at=[others, others[::-1]])
        unheard = await cluster.load(60, at=[(leader,)], weak_only=True)
        await load.reaches(30)
        for each in others:
            cluster.links.cut(leader, each)
        await load.reaches(120)
        assert await cluster.leader(*others, but=leader) in others
        await unheard.ends()
        cluster.links.mend()

    tell(tmp_path, story)


def test_one_way_that_is_cut_is_got_round(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        leader = await cluster.leader()
        cluster.links.cut(leader, (leader + 1) % 3, silently=True)
        load = await cluster.load(120)
        await load.ends()
        cluster.links.mend()

    tell(tmp_path, story)
