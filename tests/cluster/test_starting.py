"""A replica that starts: signals while it takes up a long journal, and a Python without ctypes."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.house import PATIENCE_S, house, run

SCHEME = """
import time
from pathlib import Path
from creekdb.schemes.creek import CreekReplica

class Slow(CreekReplica):
    def recover(self, *given):
        Path("begun").touch()
        while not Path("enough").exists():
            time.sleep(0.01)
        super().recover(*given)
"""


def until(path: Path, text: str = "") -> None:
    """It is there, and says so."""
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists() or text not in path.read_text():
        assert time.monotonic() < deadline, path.read_text() if path.exists() else path
        time.sleep(0.02)


@contextmanager
def starting(folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A replica that has something to take up, and does until there is a file `enough`."""

    async def story() -> None:
        async with house(folder, replicas=1) as cluster, cluster.client() as db:
            await db.strong.put("a", 1)

    run(story())
    (folder / "slow.py").write_text(SCHEME)
    given = ["--member", "0=127.0.0.1:0", "--data", "0", "--scheme", "slow:Slow"]
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "creekdb", "serve", *given], cwd=folder, stdout=said, stderr=said
        )
    try:
        until(folder / "begun")
        yield process
    finally:
        process.kill()
        process.wait()


def test_one_that_is_interrupted_while_it_takes_up_its_journal_ends_at_once(tmp_path: Path) -> None:
    with starting(tmp_path) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
    said = (tmp_path / "said").read_text()
    assert said.endswith("creek: interrupted\n")
    assert "Traceback" not in said


def test_one_that_is_told_to_reload_before_it_has_started_does_so_then(tmp_path: Path) -> None:
    with starting(tmp_path) as process:
        process.send_signal(signal.SIGHUP)
        time.sleep(0.1)
        (tmp_path / "enough").touch()
        until(tmp_path / "said", "configuration.reloaded")
        until(tmp_path / "said", "replica 0 of creek: clients at")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


def test_a_python_without_ctypes_does_without_io_uring(tmp_path: Path) -> None:
    bare = (
        "import sys; sys.modules['_ctypes'] = None; from creekdb.cli import main; sys.exit(main())"
    )
    given = ["--member", "0=127.0.0.1:0", "--data", str(tmp_path / "0")]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-c", bare, "serve", *given], stdout=said, stderr=said
        )
    try:
        until(tmp_path / "said", "writes=thread")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
