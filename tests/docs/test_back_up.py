"""A backup is made, restored and exported as the page has it: only ports and sizes differ."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from creekdb.load.local_cluster import free_port
from tests.cluster.ports import free_ports
from tests.docs.pages import commands_of
from tests.docs.reader import Reader

PAGE = "back-up.md"
BYTES = re.compile(r"\d+ bytes")


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    somebody = Reader(tmp_path, free_ports())
    yield somebody
    somebody.end()


def test_the_page_can_be_followed(reader: Reader) -> None:
    put, put_too, backup, restore, restore_one, get, export, export_live = commands_of(PAGE)
    reader.start("cluster", f"creek up --port {reader.port}").until("leads")
    at = f" --at 127.0.0.1:{reader.port}"
    reader.does(put)
    reader.does(put_too)
    assert BYTES.sub("", reader.run(backup.line + at)) == BYTES.sub("", backup.shown)
    reader.does(export_live)
    reader.terminals.pop("cluster").end()
    reader.does(export)
    reader.does(restore)
    assert "--config" in restore_one.line
    ports: defaultdict[str, str] = defaultdict(lambda: f":{free_port()}")
    for replica in range(5):
        config = reader.folder / "new" / f"replica-{replica}.toml"
        config.write_text(re.sub(r":7\d+", lambda found: ports[found[0]], config.read_text()))
        reader.start(f"new {replica}", f"creek serve --config new/replica-{replica}.toml")
    reader.terminals["new 0"].until("clients at")
    said = reader.run(f"{get.line} --at 127.0.0.1{ports[':7100']} --timeout 60")
    assert said == get.shown
