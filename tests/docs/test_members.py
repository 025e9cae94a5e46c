"""The page on members runs as written: a replica is added, another removed. Only ports differ."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.ports import free_ports
from tests.docs.page_runner import PageRunner
from tests.docs.pages import commands_of

PAGE = "members.md"


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[PageRunner]:
    runner = PageRunner(tmp_path, free_ports(4))
    yield runner
    runner.stop()


def test_a_replica_is_added_and_another_removed(runner: PageRunner) -> None:
    _, join, remove, _ = commands_of(PAGE)
    cluster = runner.start("cluster", f"creek up --port {runner.port}")
    cluster.wait_for("is the leader")
    joined = runner.start("new", join.line)
    for line in join.output.splitlines():
        joined.wait_for(runner.adapt(line))
    joined.wait_for("members are 0, 1, 2, 3")
    runner.check(remove)
    cluster.wait_for("replica 1 exited: ")
    cluster.wait_for("was removed from its cluster")
    runner.run("creek call put lamp 3 --strong")
    at = f"127.0.0.1:{runner.port + 3}"
    assert runner.run(f"creek call get lamp --strong --at {at}") == "3  (stable)\n"
