"""Which build of Python an environment is made with."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "quickest_python.py"


class Builds:
    """Pythons that say of themselves what a test wants them to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path: list[str] = []

    def add(
        self,
        name: str,
        pace: float,
        *,
        version: tuple[int, int] = (3, 11),
        venv: bool = True,
        headers: bool = True,
    ) -> str:
        home = self._folder / str(len(self.path))
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
            f"case $3 in *base_prefix*) echo '{json.dumps(about)}';; *) echo {pace};; esac\n"
        )
        python.chmod(0o755)
        self.path.append(str(home))
        return str(python)

    def chosen(self) -> tuple[str, str]:
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


def test_the_first_is_taken_where_others_are_about_as_quick(builds: Builds) -> None:
    first = builds.add("python3.11", 1.0)
    builds.add("python3.11", 0.95)
    assert builds.chosen() == (first, "")


def test_one_that_is_much_quicker_is_taken_and_told_of(builds: Builds) -> None:
    first = builds.add("python3.11", 1.0)
    other = builds.add("python3", 0.7)
    chosen, said = builds.chosen()
    assert chosen == other
    assert said == (
        f"Of the builds of Python 3.11 on the PATH, the first is {first};\n"
        f"{other} takes 70% of its time for the same, and is used.\n"
        f"To have the first all the same: make PYTHON={first} install\n"
    )


def test_what_is_named_python_3_11_comes_before_any_python_3(builds: Builds) -> None:
    builds.add("python3", 1.0)
    first = builds.add("python3.11", 1.0)
    assert builds.chosen() == (first, "")


@pytest.mark.parametrize(
    "lacks", [{"venv": False}, {"headers": False}, {"version": (3, 12)}, {"version": (3, 10)}]
)
def test_who_cannot_do_what_the_first_can_is_not_taken(
    builds: Builds, lacks: dict[str, bool]
) -> None:
    first = builds.add("python3.11", 1.0)
    builds.add("python3", 0.1, **lacks)  # type: ignore[arg-type]
    assert builds.chosen() == (first, "")


def test_what_does_not_answer_is_passed_over(builds: Builds, tmp_path: Path) -> None:
    broken = tmp_path / "python3.11"
    broken.write_text("#!/bin/sh\necho no\n")
    broken.chmod(0o755)
    builds.path = [str(tmp_path), "/nowhere"]
    assert builds.chosen() == (sys.executable, "")
    works = builds.add("python3.11", 1.0)
    assert builds.chosen() == (works, "")


def test_real_ones_answer() -> None:
    home = Path(sys.base_prefix) / "bin"
    done = subprocess.run(
        [sys.executable, TOOL], env={"PATH": str(home)}, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()).resolve().is_relative_to(home.resolve())
    assert done.stderr == ""
