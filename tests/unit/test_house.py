"""The house itself: the walls between the rooms stand, and what is installed is pinned."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")
PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9._+!-]+)")
NOT_OURS = {"build", "dist", "runs", "__pycache__"}
REGISTRY = re.compile(
    # In pieces, so that this file does not find itself.
    r"py" r"pi\.\w|python" r"hosted|index" r"[-_]url|trusted" r"[-_]host|find" r"[-_]links",
    re.IGNORECASE,
)


def lint_imports(house: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts on the copy of the package in `house`."""
    return subprocess.run(
        [LINT_IMPORTS, "--config", ROOT / ".importlinter", "--no-cache", "--no-logo"],
        cwd=house,
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def house(tmp_path: Path) -> Path:
    shutil.copytree(
        ROOT / "src" / "creekdb",
        tmp_path / "creekdb",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    return tmp_path


def test_the_rooms_keep_their_contracts(house: Path) -> None:
    checked = lint_imports(house)

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(
    ("room", "imported", "contract"),
    [
        ("protocol", "creekdb.execution", "protocol imports no other package of creekdb"),
        ("protocol", "creekdb.later", "protocol imports no other package of creekdb"),
        (
            "execution",
            "creekdb.protocol.messages",
            "execution imports only the request types of protocol",
        ),
        ("execution", "creekdb.schemes", "execution imports only the request types of protocol"),
        ("schemes", "creekdb.history", "schemes import only protocol and execution"),
        ("schemes", "creekdb.datatypes", "schemes import only protocol and execution"),
        ("history", "creekdb.execution", "history imports only protocol"),
        ("checkers", "creekdb.schemes", "checkers import only history and the data types"),
        ("checkers", "creekdb.protocol.request", "checkers import only history and the data types"),
        (
            "tpcc",
            "creekdb.datatypes",
            "tpcc imports only execution and the request types of protocol",
        ),
        (
            "tpcc",
            "creekdb.protocol.messages",
            "tpcc imports only execution and the request types of protocol",
        ),
        ("tpcc", "numpy", "Only the TPC-C columns and the pipeline import numpy"),
        ("evaluation", "pyspark", "Only the pipeline imports Spark"),
        ("cli", "pyarrow", "Only the pipeline imports Spark"),
        ("simulation", "creekdb.server", "Packages import downwards only"),
        ("server", "creekdb.simulation", "Packages import downwards only"),
        ("wire", "creekdb.history", "wire imports only execution and protocol"),
        ("client", "creekdb.server", "client and load do not import the server"),
        ("load", "creekdb.server", "client and load do not import the server"),
        ("datatypes", "creekdb.schemes", "Packages import downwards only"),
        *(
            (room, module, "Replicas use no clock")
            for room in ("protocol", "execution", "schemes")
            for module in ("asyncio", "logging", "random", "socket", "threading", "time")
        ),
    ],
)
def test_an_import_through_a_wall_is_caught(
    house: Path, room: str, imported: str, contract: str
) -> None:
    for missing in (room, imported.removeprefix("creekdb.")):
        if imported.startswith("creekdb.") and "." not in missing:
            (house / "creekdb" / missing).mkdir(exist_ok=True)
            (house / "creekdb" / missing / "__init__.py").touch()
    (house / "creekdb" / room / "intruder.py").write_text(f"import {imported}\n")

    checked = lint_imports(house)

    assert checked.returncode == 1
    broken = checked.stdout[checked.stdout.index("Broken contracts") :]
    assert contract in broken
    assert f"creekdb.{room}.intruder -> {imported} (l.1)" in broken


@pytest.mark.parametrize(
    ("room", "imported"),
    [
        ("protocol", "creekdb.errors"),
        ("execution", "creekdb.protocol.request"),
        ("execution", "creekdb.protocol.values"),
        ("execution", "creekdb.protocol.ids.version_vector"),
        ("schemes", "creekdb.protocol.messages"),
        ("schemes", "creekdb.execution.undo"),
        ("history", "creekdb.protocol.effects"),
        ("tpcc", "creekdb.execution.mvcc.version_store"),
        ("tpcc", "creekdb.protocol.request"),
        ("checkers", "creekdb.history.records"),
        ("checkers", "creekdb.datatypes"),
    ],
)
def test_an_import_through_a_door_is_allowed(house: Path, room: str, imported: str) -> None:
    (house / "creekdb" / room / "guest.py").write_text(f"import {imported}\n")

    checked = lint_imports(house)

    assert f"creekdb.{room}.guest" not in checked.stdout


def test_a_room_that_no_contract_knows_is_caught(house: Path) -> None:
    (house / "creekdb" / "later").mkdir()
    (house / "creekdb" / "later" / "__init__.py").touch()

    checked = lint_imports(house)

    assert checked.returncode == 1
    assert "later" in checked.stdout


def constraints() -> list[str]:
    return (ROOT / "constraints.txt").read_text().splitlines()


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_constraint_is_an_exact_pin_without_an_address() -> None:
    assert [line for line in constraints() if not PIN.fullmatch(line)] == []


def test_everything_installed_is_pinned_at_its_version() -> None:
    frozen = subprocess.run(
        [sys.executable, "-m", "pip", "freeze", "--exclude-editable", "--exclude", "creekdb"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    pinned = {
        normalised(pin["name"]): pin["version"]
        for line in constraints()
        if (pin := PIN.fullmatch(line))
    }

    installed = {
        normalised(pin["name"]): pin["version"] for line in frozen if (pin := PIN.fullmatch(line))
    }

    assert len(installed) == len(frozen)
    assert installed.items() <= pinned.items()
    assert pinned.keys() - installed.keys() <= of_the_extra("bench")  # which `make bench` installs


def of_the_extra(name: str) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["optional-dependencies"][name]
    return {normalised(re.split(r"[^\w.-]", each)[0]) for each in wanted}


def our_files() -> Iterator[Path]:
    for folder, names, files in os.walk(ROOT):
        names[:] = [
            name
            for name in names
            if name not in NOT_OURS
            and not name.endswith(".egg-info")
            and (not name.startswith(".") or name == ".ci")
        ]
        yield from (Path(folder, file) for file in files)


def test_no_file_says_where_packages_come_from() -> None:
    telling = [
        str(path.relative_to(ROOT))
        for path in our_files()
        if REGISTRY.search(path.read_text(encoding="utf-8", errors="replace"))
    ]

    assert telling == []
