"""Examples of the live-cluster pages run as written, with other ports."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from creekdb.load.local_cluster import LocalCluster

ROOT = Path(__file__).parents[2]
LINES_MAX = 15


def programs(text: str) -> list[tuple[str, str]]:
    """Return the programs of a page, each with its documented output."""
    return re.findall(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", text, re.DOTALL)


def output_of(program: str, cluster: LocalCluster, directory: Path) -> str:
    for number, address in enumerate(cluster.addresses):
        program = program.replace(f"127.0.0.1:{7100 + number}", address)
    (directory / "program.py").write_text(program)
    completed = subprocess.run(
        [sys.executable, "program.py"], cwd=directory, capture_output=True, text=True, check=False
    )
    return completed.stdout + completed.stderr


async def test_the_readme_example_runs_in_fifteen_lines(tmp_path: Path) -> None:
    section = (ROOT / "README.md").read_text().partition("fifteen lines\n")[2]
    (program, shown), *_ = programs(section.partition("\n## ")[0])
    assert len([line for line in program.splitlines() if line]) <= LINES_MAX
    cluster = LocalCluster(tmp_path, replicas=3)
    cluster.start()
    try:
        await cluster.wait_until_ready()
        assert output_of(program, cluster, tmp_path) == shown
    finally:
        cluster.stop()


async def test_the_shop_example_runs_as_documented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop, no_output), (program, shown) = programs((ROOT / "docs" / "live-cluster.md").read_text())
    assert not no_output
    (tmp_path / "shop.py").write_text(shop)
    monkeypatch.chdir(tmp_path)
    cluster = LocalCluster(tmp_path, replicas=3, datatype="shop:shop")
    cluster.start()
    try:
        await cluster.wait_until_ready()
        assert output_of(program, cluster, tmp_path) == shown
    finally:
        cluster.stop()
