"""Which environment `make install` keeps, and which one it makes anew."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class House:
    """A copy of what `make install` reads, and Pythons that install nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "tools").mkdir(parents=True)
        for name in ("Makefile", "pyproject.toml", "constraints.txt", "tools/quickest_python.py"):
            shutil.copy(ROOT / name, folder / name)

    def python(self, name: str, *, recent: bool = True) -> Path:
        """One whose environments hold itself, as symbolic links do."""
        python = self.folder / name
        python.write_text(
            f"""#!/bin/sh
case "$*" in
    *version_info*) {"true" if recent else "false"};;
    *base_prefix*) echo {name};;
    *quickest_python*) echo {python};;
    --version) echo Python {name};;
    *venv*) rm -rf .venv; mkdir -p .venv/bin; ln -s {python} .venv/bin/python;;
esac
"""
        )
        python.chmod(0o755)
        return python

    def install(self, python: Path | None) -> "subprocess.CompletedProcess[str]":
        named = [] if python is None else [f"PYTHON={python}"]
        return subprocess.run(
            ["make", "--no-print-directory", *named, "install"],
            cwd=self.folder,
            env={"PATH": f"{self.folder}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )

    def made_with(self) -> Path:
        return (self.folder / ".venv/bin/python").readlink()


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path / "house")


READY = "Ready: .venv/bin/creek --help\n"


def test_it_is_made_once(house: House) -> None:
    one = house.python("one")
    assert f"Creating .venv with Python one ({one}) ..." in house.install(one).stdout
    assert house.install(one).stdout == READY
    assert house.install(None).stdout == READY
    assert house.made_with() == one


def test_who_names_another_python_gets_it(house: House) -> None:
    one, two = house.python("one"), house.python("two")
    house.install(one)
    assert f"Creating .venv with Python two ({two}) ..." in house.install(two).stdout
    assert house.made_with() == two


@pytest.mark.parametrize("named", ["nowhere", "old"])
def test_who_names_one_that_will_not_do_is_told_and_nothing_is_lost(
    house: House, named: str
) -> None:
    one = house.python("one")
    house.python("old", recent=False)
    house.install(one)
    done = house.install(house.folder / named)
    assert done.returncode != 0
    assert "Creek needs Python 3.11 or later" in done.stderr
    assert f"looked for as {house.folder / named}." in done.stderr
    assert house.made_with() == one


def test_one_whose_python_is_gone_is_made_anew(house: House) -> None:
    one = house.python("one")
    house.install(one)
    one.unlink()
    other = house.python("python3.11")
    assert house.install(None).returncode == 0
    assert house.made_with() == other
