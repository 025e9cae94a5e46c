"""A replica joins a cluster, and another one leaves it, as the page has it: only ports differ."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.ports import free_ports
from tests.docs.pages import commands_of
from tests.docs.reader import Reader

PAGE = "members.md"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    somebody = Reader(tmp_path, free_ports(4))
    yield somebody
    somebody.end()


def test_the_page_can_be_followed(reader: Reader) -> None:
    _, join, remove, _ = commands_of(PAGE)
    cluster = reader.start("cluster", f"creek up --port {reader.port}")
    cluster.until("leads")
    joined = reader.start("new", join.line)
    for line in join.shown.splitlines():
        joined.until(reader.adapted(line))
    joined.until("members are 0, 1, 2, 3")
    reader.does(remove)
    cluster.until("replica 1 ended: ")
    cluster.until("was removed from its cluster")
    reader.run("creek call put lamp 3 --strong")
    at = f"127.0.0.1:{reader.port + 3}"
    assert reader.run(f"creek call get lamp --strong --at {at}") == "3  (stable)\n"
