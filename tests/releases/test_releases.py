"""Data directories and backups of every release open in this one (docs/compatibility.md)."""

import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

import creekdb
from creekdb.server.membership.rollback_guard import DirectoryEvidence
from creekdb.server.storage.data_dir import JSON_VERSION
from tests.cluster.backups import restore_all, user_state
from tests.cluster.in_process_cluster import InProcessCluster, running_cluster
from tests.releases.make import (
    ARCHIVES,
    BACKUP,
    DATA_TYPE,
    REMOVED,
    RETENTION,
    ROWS,
    STATE,
    archives,
)

WITH_TABLES = sorted(ARCHIVES.glob("*-tables.zip"))
RELEASES = sorted({*ARCHIVES.glob("*.zip")} - {*WITH_TABLES})


@pytest.fixture(params=RELEASES, ids=lambda path: path.name.removesuffix(".zip"))
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Directory with the files of one release."""
    return extracted(request.param, tmp_path)


@pytest.fixture(params=WITH_TABLES, ids=lambda path: path.name.removesuffix(".zip"))
def release_with_tables(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Directory with the files of one release: tables, checkpoints and a removed member."""
    return extracted(request.param, tmp_path)


def extracted(archive: Path, directory: Path) -> Path:
    with zipfile.ZipFile(archive) as file:
        file.extractall(directory)
    return directory


async def state(cluster: InProcessCluster) -> dict[str, object]:
    async with cluster.client() as db:
        return dict(await db.strong.scan(""))


async def rows(cluster: InProcessCluster) -> tuple[tuple[Any, ...], ...]:
    async with cluster.client() as db:
        return tuple((await db.strong.query("SELECT * FROM item ORDER BY id"))["rows"])


def test_this_release_has_its_archives() -> None:
    version = creekdb.__version__
    assert "dev" in version or all(each.exists() for each in archives(version).values())


async def test_replicas_continue_on_the_data_directories_of_a_release(release: Path) -> None:
    evidence = (release / "0" / "evidence.json").read_bytes()
    assert msgspec.json.decode(evidence, type=DirectoryEvidence).sightings
    async with running_cluster(release, keep_changes=RETENTION, before_images=True) as cluster:
        assert await state(cluster) == STATE
        async with cluster.client() as db:
            assert await db.strong.increment("apple") == STATE["apple"] + 1  # type: ignore[operator]


async def test_the_change_feed_of_a_release_is_readable_from_its_start(release: Path) -> None:
    writes: list[tuple[Any, Any]] = []
    async with (
        running_cluster(release, keep_changes=RETENTION, before_images=True) as cluster,
        cluster.client() as db,
    ):
        async for change in db.changes("earliest", follow=False):
            writes += change.writes

    assert writes[: len(STATE)] == list(STATE.items())
    assert dict(writes)["apple"] == STATE["apple"]


async def test_a_backup_of_a_release_is_restored(release: Path, tmp_path: Path) -> None:
    assert user_state(release / BACKUP).items() >= STATE.items()
    restore_all(release / BACKUP, tmp_path / "restored", 1, datatype=DATA_TYPE)
    async with running_cluster(tmp_path / "restored", 1, cluster="another") as cluster:
        assert await state(cluster) == STATE


@pytest.mark.parametrize("name", ["owner.json", "evidence.json"])
def test_small_files_carry_their_version(release: Path, name: str) -> None:
    written = msgspec.json.decode((release / "0" / name).read_bytes())
    assert 1 <= written["version"] <= JSON_VERSION


async def test_replicas_continue_on_the_checkpoints_and_tables_of_a_release(
    release_with_tables: Path,
) -> None:
    assert not (release_with_tables / "0" / "000000000001.journal").exists()
    async with running_cluster(
        release_with_tables, REMOVED, datatype="sql", keep_changes=RETENTION, before_images=True
    ) as cluster:
        assert await rows(cluster) == ROWS
        for server in cluster.servers.values():
            assert server.membership.configuration.former == (REMOVED,)
        async with cluster.client() as db:
            await db.strong.sql("DELETE FROM item WHERE name = 'item 7'")
        assert len(await rows(cluster)) == len(ROWS) - 1


async def test_a_backup_of_a_release_with_tables_is_restored(
    release_with_tables: Path, tmp_path: Path
) -> None:
    restore_all(release_with_tables / BACKUP, tmp_path / "restored", 1, datatype="sql")
    async with running_cluster(
        tmp_path / "restored", 1, cluster="another", datatype="sql"
    ) as cluster:
        assert await rows(cluster) == ROWS
