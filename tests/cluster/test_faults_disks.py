"""Real processes whose disks are full, fail, are damaged or lost."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from creekdb.client import NotDone
from tests.cluster import faults_disk
from tests.cluster.faults_story import Cluster, tell

OTHERS = [(1, 2), (2, 1)]
LARGE = "x" * 60_000
QUIET_S = 0.3
"""After a decision: by then the last record that nobody waits for is written, and no more comes."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Of replica 0."""
    try:
        with faults_disk.small_disk(tmp_path / "0", megabytes=16):
            yield tmp_path / "0"
    except OSError as error:
        pytest.skip(str(error))


async def refuses_until(cluster: Cluster, reason: str) -> None:
    """Replica 0 says that it cannot write, and why; the others go on."""
    (said,) = await cluster.until(lambda said: said[0]["disk"] is not None, 0)
    assert reason in said["disk"]
    db = await cluster.client(0)
    with pytest.raises(NotDone, match=reason) as refused:
        await db.weak.put("refused", 1)
    assert refused.value.reason == "disk"
    load = await cluster.load(60, at=OTHERS)
    await load.ends()


def test_a_replica_whose_disk_is_full_refuses_until_there_is_space(
    small_disk: Path, tmp_path: Path
) -> None:
    async def story(cluster: Cluster) -> None:
        load = await cluster.load(60)
        await load.reaches(30)
        await load.ends()
        ballast = faults_disk.fill(small_disk)
        db = await cluster.client(0)
        calls = [db.weak.put(f"large {each}", LARGE) for each in range(40)]
        await refuses_until(cluster, "no space left")
        ballast.unlink()
        done = set()
        for each in calls:
            try:
                await each  # those that were taken up are answered now
                done.add(each.message.arguments)
            except NotDone as error:
                assert error.reason == "disk"  # noqa: PT017
        assert done == set(await db.strong.scan("large"))
        await cluster.load(60)

    tell(tmp_path, story)


def test_a_replica_whose_disk_fails_refuses_until_it_works_again(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        db = await cluster.client(0)
        assert await db.strong.increment("n") == 1
        await asyncio.sleep(QUIET_S)  # or what else is written fails first, and the call is refused
        process = cluster.processes.process_id(0)
        faults_disk.refuse_writes(process)
        call = db.strong.increment("n")
        await refuses_until(cluster, "cannot write")
        faults_disk.allow_writes(process)
        assert await call == 2
        await cluster.load(60)

    tell(tmp_path, story)


def test_what_a_crash_tore_is_cut_off(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        load = await cluster.load(90)
        await load.reaches(60)
        cluster.processes.kill(0)
        faults_disk.tear(cluster.processes.data(0))
        cluster.processes.start(0)
        await cluster.up()
        assert "that a crash tore off" in cluster.processes.said(0)

    tell(tmp_path, story)


def test_a_damaged_journal_is_refused_with_what_to_do_and_left_alone(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        load = await cluster.load(90)
        await load.ends()
        await cluster.rest()
        data = cluster.processes.data(0)
        cluster.processes.kill(0)
        damaged = faults_disk.flip(data)
        found = faults_disk.contents(data)
        cluster.processes.start(0)
        assert await cluster.processes.exit_code(0) == 3
        assert f"{damaged} is damaged at byte" in cluster.processes.said(0)
        assert f"move {data} away" in cluster.processes.said(0)
        assert faults_disk.contents(data).keys() == found.keys()
        assert faults_disk.contents(data)[damaged.name] == found[damaged.name]
        data.rename(data.with_name("moved away"))
        cluster.processes.start(0)
        await cluster.load(60)

    tell(tmp_path, story)


@pytest.mark.parametrize("leads", [True, False])
def test_a_replica_that_lost_its_disk_comes_back(leads: bool, tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        load = await cluster.load(90)
        await load.ends()
        await cluster.rest()  # what only it has acknowledged is lost with its disk
        leader = await cluster.leader()
        loser, *others = ((leader + (not leads) + each) % 3 for each in range(3))
        more = await cluster.load(120, at=[others, others[::-1]])
        await more.reaches(30)
        cluster.processes.kill(loser)
        shutil.rmtree(cluster.processes.data(loser))
        await more.reaches(60)
        cluster.processes.start(loser)
        await cluster.load(60)

    tell(tmp_path, story)
