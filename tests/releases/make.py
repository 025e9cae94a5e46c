"""Write the archive of this release: `python -m tests.releases.make`.

It contains the data directories of three replicas, with their change feeds, and a backup. Each
release adds its archive, and every later one must open all of them (`test_releases.py`).
"""

import asyncio
import tempfile
import zipfile
from pathlib import Path
from typing import Final

import creekdb
from tests.cluster.backups import back_up
from tests.cluster.in_process_cluster import running_cluster

ARCHIVES: Final = Path(__file__).parent
DATA_TYPE: Final = "kv"
RETENTION: Final = "3650d"
STATE: Final = {"apple": 5, "bytes": b"\x00\xff", "list": (1, (2.5, None)), "text": "žluťoučký"}
"""Final state of every archive."""
BACKUP: Final = "shop.backup"


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


def main() -> None:
    archive = ARCHIVES / f"{creekdb.__version__}.zip"
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        asyncio.run(write_data(directory))
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            for path in sorted(directory.rglob("*")):
                if path.is_file() and path.name != "lock":
                    file.write(path, path.relative_to(directory))
    print(f"{archive}: {archive.stat().st_size} bytes")


if __name__ == "__main__":
    main()
