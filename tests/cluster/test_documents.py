"""What the pages say of the live cluster runs as written. Only ports are others than there."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from creekdb.load.local_cluster import LocalCluster

ROOT = Path(__file__).parents[2]
LINES_MAX = 15


def blocks(text: str) -> list[tuple[str, str]]:
    """Programs, each with what is shown to come out of it."""
    return re.findall(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", text, re.DOTALL)


def ran(program: str, cluster: LocalCluster, folder: Path) -> str:
    for number, address in enumerate(cluster.addresses):
        program = program.replace(f"127.0.0.1:{7100 + number}", address)
    (folder / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_the_fifteen_lines_of_the_readme(tmp_path: Path) -> None:
    section = (ROOT / "README.md").read_text().partition("fifteen lines\n")[2]
    (program, shown), *_ = blocks(section.partition("\n## ")[0])
    assert len([line for line in program.splitlines() if line]) <= LINES_MAX
    cluster = LocalCluster(tmp_path, replicas=3)
    cluster.start()
    try:
        asyncio.run(cluster.wait_until_ready())
        assert ran(program, cluster, tmp_path) == shown
    finally:
        cluster.stop()


def test_the_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shop, nothing), (program, shown) = blocks((ROOT / "docs" / "live-cluster.md").read_text())
    assert not nothing
    (tmp_path / "shop.py").write_text(shop)
    monkeypatch.chdir(tmp_path)
    cluster = LocalCluster(tmp_path, replicas=3, datatype="shop:shop")
    cluster.start()
    try:
        asyncio.run(cluster.wait_until_ready())
        assert ran(program, cluster, tmp_path) == shown
    finally:
        cluster.stop()
