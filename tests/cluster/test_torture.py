"""Short tortures of real processes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 120.0
BLACK_BOX_CHECKERS = ("exactly once", "final states", "sessions")


def torture(out: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the summary."""
    command = [sys.executable, "-m", "creekdb", "torture", *arguments]
    completed = subprocess.run(
        [*command, "--out", str(out), "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert completed.stdout, completed.stderr
    return completed.returncode, json.loads(completed.stdout)


def test_a_short_torture_passes_every_checker(tmp_path: Path) -> None:
    code, summary = torture(tmp_path / "out", "--minutes", "0.1", "--seed", "3", "--replicas", "3")

    assert (code, summary["failures"]) == (0, [])
    assert {each["verdict"] for each in summary["verdicts"]} == {"ok"}
    assert {each["checker"] for each in summary["verdicts"]} >= {"replay", *BLACK_BOX_CHECKERS}
    assert summary["faults"] >= 1
    assert summary["calls"] > 0
    assert "no violation was found" in (tmp_path / "out" / "report.html").read_text()
    assert not (tmp_path / "out" / "round-0").exists()


def test_a_nondeterministic_operation_is_found(tmp_path: Path) -> None:
    code, summary = torture(
        tmp_path / "out",
        *("tests.cluster.nondeterministic_types:by_process", "--minutes", "0.05"),
        *("--replicas", "3", "--seed", "3"),
    )

    assert code == 1
    assert summary["failed"]
    assert any("states have diverged" in each for each in summary["failures"])
    assert (tmp_path / "out" / "round-0").is_dir()
