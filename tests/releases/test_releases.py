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
from tests.releases.make import ARCHIVES, BACKUP, DATA_TYPE, RETENTION, STATE

RELEASES = sorted(ARCHIVES.glob("*.zip"))


@pytest.fixture(params=RELEASES, ids=lambda path: path.name.removesuffix(".zip"))
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Directory with the files of one release."""
    with zipfile.ZipFile(request.param) as archive:
        archive.extractall(tmp_path)
    return tmp_path


async def state(cluster: InProcessCluster) -> dict[str, object]:
    async with cluster.client() as db:
        return dict(await db.strong.scan(""))


def test_this_release_has_an_archive() -> None:
    version = creekdb.__version__
    assert "dev" in version or ARCHIVES / f"{version}.zip" in RELEASES


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
