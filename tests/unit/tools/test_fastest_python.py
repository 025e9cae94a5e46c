"""`tools/fastest_python.py` selects the interpreter of `.venv`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "fastest_python.py"


class Builds:
    """Fake interpreters with given properties and speed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.path: list[str] = []

    def add(
        self,
        name: str,
        seconds: float,
        *,
        version: tuple[int, int] = (3, 11),
        venv: bool = True,
        headers: bool = True,
    ) -> str:
        home = self._directory / str(len(self.path))
        home.mkdir()
        python = home / name
        about = {
            "path": str(python),
            "home": str(home),
            "version": version,
            "venv": venv,
            "headers": headers,
        }
        python.write_text(
            "#!/bin/sh\n"
            f"case $3 in *base_prefix*) echo '{json.dumps(about)}';; *) echo {seconds};; esac\n"
        )
        python.chmod(0o755)
        self.path.append(str(home))
        return str(python)

    def select(self) -> tuple[str, str]:
        done = subprocess.run(
            [sys.executable, TOOL],
            env={"PATH": os.pathsep.join(self.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip(), done.stderr


@pytest.fixture
def builds(tmp_path: Path) -> Builds:
    return Builds(tmp_path)


def test_the_first_build_wins_if_others_are_hardly_faster(builds: Builds) -> None:
    first = builds.add("python3.11", 1.0)
    builds.add("python3.11", 0.95)
    assert builds.select() == (first, "")


def test_a_much_faster_build_is_selected_and_reported(builds: Builds) -> None:
    first = builds.add("python3.11", 1.0)
    other = builds.add("python3", 0.7)
    selected, message = builds.select()
    assert selected == other
    assert message == (
        f"Selected Python 3.11: {other}\n"
        f"It needs 70% of the time of the first build on the PATH, {first}.\n"
        f"To use the first build: make PYTHON={first} install\n"
    )


def test_python3_11_precedes_python3(builds: Builds) -> None:
    builds.add("python3", 1.0)
    first = builds.add("python3.11", 1.0)
    assert builds.select() == (first, "")


@pytest.mark.parametrize(
    "lacks", [{"venv": False}, {"headers": False}, {"version": (3, 12)}, {"version": (3, 10)}]
)
def test_a_build_without_a_feature_of_the_first_is_not_selected(
    builds: Builds, lacks: dict[str, bool]
) -> None:
    first = builds.add("python3.11", 1.0)
    builds.add("python3", 0.1, **lacks)  # type: ignore[arg-type]
    assert builds.select() == (first, "")


def test_a_broken_interpreter_is_skipped(builds: Builds, tmp_path: Path) -> None:
    broken = tmp_path / "python3.11"
    broken.write_text("#!/bin/sh\necho no\n")
    broken.chmod(0o755)
    builds.path = [str(tmp_path), "/nowhere"]
    assert builds.select() == (sys.executable, "")
    working = builds.add("python3.11", 1.0)
    assert builds.select() == (working, "")


def test_a_real_interpreter_is_described() -> None:
    home = Path(sys.base_prefix) / "bin"
    done = subprocess.run(
        [sys.executable, TOOL], env={"PATH": str(home)}, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()).resolve().is_relative_to(home.resolve())
    assert done.stderr == ""
