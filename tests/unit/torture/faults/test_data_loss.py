"""Loss of data: detection of a rolled-back disk, and recovery."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from creekdb.torture.faults.data_loss import DataLoss, DiskCopy, UndetectedRollback
from creekdb.torture.faults.membership_operator import Operator
from creekdb.torture.processes import ReplicaProcesses, UnexpectedExit


class StubProcesses:
    """Replica 0, whose process exits with the given code and output after a rollback."""

    all = running = (0,)

    def __init__(self, directory: Path, code: int | None, output: str) -> None:
        self.directory = directory
        self._code = code
        self._output = output
        self.started: list[dict[str, str]] = []
        """Files of the replica at each start."""
        (directory / "0").mkdir()
        (directory / "recorded").mkdir()

    def data_dir(self, replica: int) -> Path:
        return self.directory / str(replica)

    def kill(self, *replicas: int) -> None: ...

    def start(self, *replicas: int) -> None:
        if replicas:
            directory = self.data_dir(0)
            directory.mkdir(exist_ok=True)
            self.started.append({each.name: each.read_text() for each in directory.iterdir()})
            (self.directory / "recorded" / f"0-{len(self.started)}").touch()

    async def exit_code(self, replica: int) -> int:
        if self._code is None:
            raise TimeoutError
        return self._code

    def output(self, replica: int) -> str:
        return self._output


class StubOperator:
    has_changed = False
    has_free_location = True


class NoPause(Random):
    """Draws that keep all other replicas running and do not wait."""

    def uniform(self, a: float, b: float) -> float:
        return 0.0

    def sample(self, *arguments: Any, **options: Any) -> list[Any]:
        return []


def roll_back(processes: StubProcesses) -> str | None:
    loss = DataLoss(
        cast(ReplicaProcesses, processes),
        cast(Operator, StubOperator()),
        processes.directory,
        processes.directory / "recorded",
    )
    journal = processes.data_dir(0) / "journal"
    journal.write_text("old")
    copy = loss.copy_disk(NoPause(1))
    journal.write_text("new")
    assert copy == DiskCopy(0, processes.directory / "disk of 0")
    return asyncio.run(loss.roll_back_disk(copy, NoPause(1)))


def test_a_rolled_back_replica_that_exits_recovers_from_an_empty_disk(tmp_path: Path) -> None:
    processes = StubProcesses(tmp_path, 1, "data lost: the data directory is an older copy")

    assert roll_back(processes) == "0"

    assert processes.started[:3] == [{"journal": "old"}, {"journal": "old"}, {}]
    recorded = {each.name for each in (tmp_path / "recorded").iterdir()}
    assert "0-1" in recorded
    assert "0-2" not in recorded


def test_a_rolled_back_replica_that_runs_on_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(UndetectedRollback, match="older copy"):
        roll_back(StubProcesses(tmp_path, None, ""))


@pytest.mark.parametrize(("code", "output"), [(0, "data lost"), (1, "Traceback")])
def test_an_exit_for_another_reason_is_a_failure(tmp_path: Path, code: int, output: str) -> None:
    with pytest.raises(UnexpectedExit):
        roll_back(StubProcesses(tmp_path, code, output))
