"""Real processes with links cut in both directions or in one."""

from pathlib import Path

import pytest

from creekdb.client import Unknown
from tests.cluster.fault_scenario import fault_scenario


@pytest.mark.parametrize("silently", [False, True])
async def test_both_sides_serve_weak_calls_and_only_the_majority_strong_ones(
    silently: bool, tmp_path: Path
) -> None:
    async with fault_scenario(tmp_path, replicas=5) as cluster:
        first = await cluster.agreed_leader()
        leader, other, *rest = ((first + each) % 5 for each in range(5))
        cluster.links.partition((leader, other), silently)
        smaller = await cluster.load(60, at=[(leader,), (other,)], weak_only=True)
        larger = await cluster.load(90, at=[(each,) for each in rest])
        await smaller.finish()
        await larger.finish()
        db = await cluster.client(other)
        with pytest.raises(Unknown, match="no stable response"):
            await db.strong.within(0.3).put("too late", 1)
        increment = db.strong.increment("patience")
        assert await increment.tentative == 1
        cluster.links.heal()
        assert await increment == 1


async def test_a_leader_that_cannot_send_is_replaced(tmp_path: Path) -> None:
    async with fault_scenario(tmp_path) as cluster:
        leader = await cluster.agreed_leader()
        others = [each for each in cluster.processes.all if each != leader]
        load = await cluster.load(150, at=[others, others[::-1]])
        isolated = await cluster.load(60, at=[(leader,)], weak_only=True)
        await load.until_completed(30)
        for each in others:
            cluster.links.cut(leader, each)
        await load.until_completed(120)
        assert await cluster.agreed_leader(*others, excluding=leader) in others
        await isolated.finish()
        cluster.links.heal()


async def test_messages_bypass_a_link_cut_in_one_direction(tmp_path: Path) -> None:
    async with fault_scenario(tmp_path) as cluster:
        leader = await cluster.agreed_leader()
        cluster.links.cut(leader, (leader + 1) % 3, silently=True)
        load = await cluster.load(120)
        await load.finish()
        cluster.links.heal()
