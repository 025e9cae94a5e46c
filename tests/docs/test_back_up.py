"""The backup page runs as written: backup, restore and export. Only ports and sizes differ."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from creekdb.load.local_cluster import free_port
from tests.cluster.ports import free_ports
from tests.docs.page_runner import PageRunner
from tests.docs.pages import commands_of

PAGE = "back-up.md"
BYTES = re.compile(r"\d+ bytes")


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[PageRunner]:
    runner = PageRunner(tmp_path, free_ports())
    yield runner
    runner.stop()


def test_a_backup_is_restored_and_exported(runner: PageRunner) -> None:
    put, second_put, backup, restore, restore_one, get, export, export_live = commands_of(PAGE)
    runner.start("cluster", f"creek up --port {runner.port}").wait_for("is the leader")
    at = f" --at 127.0.0.1:{runner.port}"
    runner.check(put)
    runner.check(second_put)
    assert BYTES.sub("", runner.run(backup.line + at)) == BYTES.sub("", backup.output)
    runner.check(export_live)
    runner.terminals.pop("cluster").stop()
    runner.check(export)
    runner.check(restore)
    assert "--config" in restore_one.line
    ports: defaultdict[str, str] = defaultdict(lambda: f":{free_port()}")
    for replica in range(5):
        config = runner.directory / "new" / f"replica-{replica}.toml"
        config.write_text(re.sub(r":7\d+", lambda port: ports[port[0]], config.read_text()))
        runner.start(f"new {replica}", f"creek serve --config new/replica-{replica}.toml")
    runner.terminals["new 0"].wait_for("clients at")
    output = runner.run(f"{get.line} --at 127.0.0.1{ports[':7100']} --timeout 60")
    assert output == get.output
