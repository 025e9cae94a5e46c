"""Write the archives of this release: `python -m tests.releases.make`. Existing ones are kept.

Each contains the data directories of three replicas, with their change feeds, and a backup. The
first one has registers. The second one has SQL tables, checkpoints, and a member that was removed.
Each release adds its archives, and every later one must open all of them (`test_releases.py`).
"""

import asyncio
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

import creekdb
from creekdb.server.membership.changes import REMOVE_MEMBER
from tests.cluster.backups import back_up
from tests.cluster.in_process_cluster import running_cluster
from tests.cluster.test_checkpoints import until_truncated

ARCHIVES: Final = Path(__file__).parent
DATA_TYPE: Final = "kv"
RETENTION: Final = "3650d"
STATE: Final = {"apple": 5, "bytes": b"\x00\xff", "list": (1, (2.5, None)), "text": "žluťoučký"}
"""Final state of every archive with registers."""
ROWS: Final = tuple((number, f"item {number}", number / 4) for number in range(20))
"""Rows of the table in every archive with tables."""
BACKUP: Final = "shop.backup"
REMOVED: Final = 3
"""Replica that is no member in archives with tables."""
CHECKPOINT_EVERY: Final = 20
UPDATES: Final = 120


async def write_data(directory: Path) -> None:
    """Run a cluster, until its directories contain all kinds of files."""
    async with (
        running_cluster(directory, keep_changes=RETENTION, before_images=True) as cluster,
        cluster.client() as db,
    ):
        for key, value in STATE.items():
            await db.strong.put(key, value)
        await db.weak.put("deleted", True)
        await db.weak.increment("apple", 2)
        await db.strong.delete("deleted")
        await db.weak.increment("apple", -2)
        await cluster.until_quiescent()
        await back_up(cluster, directory / BACKUP)


async def write_tables(directory: Path) -> None:
    """Run a cluster until it has removed a member, and checkpoints replace its first records."""
    async with (
        running_cluster(
            directory,
            REMOVED + 1,
            datatype="sql",
            keep_changes=RETENTION,
            before_images=True,
            checkpoint_every=CHECKPOINT_EVERY,
        ) as cluster,
        cluster.client(0) as db,
    ):
        await db.strong.sql("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price REAL)")
        await db.strong.sql("CREATE INDEX item_name ON item(name)")
        await db.strong(REMOVE_MEMBER, REMOVED)
        await cluster.servers[REMOVED].stop_requested.wait()
        await cluster.stop(REMOVED)
        shutil.rmtree(directory / str(REMOVED))
        for row in ROWS:
            await db.strong.sql("INSERT INTO item VALUES (?, ?, ?)", row)
        for price in reversed(range(UPDATES)):  # a checkpoint waits for as many calls as registers
            await db.strong.sql("UPDATE item SET price = ? WHERE id = 0", (price,))
        await cluster.until_quiescent()
        for replica in range(REMOVED):
            await until_truncated(directory / str(replica))
        await back_up(cluster, directory / BACKUP)


WRITERS: Final[Mapping[str, Callable[[Path], Coroutine[Any, Any, None]]]] = {
    "": write_data,
    "-tables": write_tables,
}
"""Functions that write the data of an archive, by the suffix of its name."""


def archives(version: str) -> dict[str, Path]:
    """Return the archives of a release, by suffix."""
    return {suffix: ARCHIVES / f"{version}{suffix}.zip" for suffix in WRITERS}


def main() -> None:
    for suffix, archive in archives(creekdb.__version__).items():
        if not archive.exists():
            write_archive(archive, WRITERS[suffix])


def write_archive(archive: Path, write: Callable[[Path], Coroutine[Any, Any, None]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        asyncio.run(write(directory))
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            for path in sorted(directory.rglob("*")):
                if path.is_file() and path.name != "lock":
                    file.write(path, path.relative_to(directory))
    print(f"{archive}: {archive.stat().st_size} bytes")


if __name__ == "__main__":
    main()
