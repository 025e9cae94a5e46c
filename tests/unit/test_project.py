"""Import contracts, names of unit tests, pinned packages, and no file that names a registry."""

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
UNIT_TESTS = Path("tests/unit")
SOURCES = {
    UNIT_TESTS / "benchmarks": Path("benchmarks"),
    UNIT_TESTS / "tools": Path("tools"),
    UNIT_TESTS: Path("src/creekdb"),
}
"""Directories of tests, and the directories that they mirror. The first match applies."""
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")
PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9._+!-]+)")
EXCLUDED_DIRECTORIES = {"build", "dist", "runs", "__pycache__"}
REGISTRY = re.compile(
    # Split, so that the pattern does not match this file.
    r"py" r"pi\.\w|python" r"hosted|index" r"[-_]url|trusted" r"[-_]host|find" r"[-_]links",
    re.IGNORECASE,
)


def lint_imports(directory: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts on the copy of the package in `directory`."""
    return subprocess.run(
        [LINT_IMPORTS, "--config", ROOT / ".importlinter", "--no-cache", "--no-logo"],
        cwd=directory,
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def copy_package(directory: Path) -> Path:
    shutil.copytree(
        ROOT / "src" / "creekdb",
        directory / "creekdb",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    return directory


@pytest.fixture
def package_copy(tmp_path: Path) -> Path:
    return copy_package(tmp_path)


def test_the_import_contracts_hold(package_copy: Path) -> None:
    checked = lint_imports(package_copy)

    assert checked.returncode == 0, checked.stdout + checked.stderr


FORBIDDEN_IMPORTS = (
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
    ("driver", "creekdb.schemes", "driver imports only protocol"),
    ("checkers", "creekdb.schemes", "checkers import only history and the data types"),
    ("checkers", "creekdb.protocol.request", "checkers import only history and the data types"),
    (
        "tpcc",
        "creekdb.datatypes",
        "tpcc imports only execution, the request types of protocol and the registers of SQL",
    ),
    (
        "tpcc",
        "creekdb.protocol.messages",
        "tpcc imports only execution, the request types of protocol and the registers of SQL",
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
        (package, module, "Replicas use no clock")
        for package in ("protocol", "execution", "schemes", "driver")
        for module in ("asyncio", "logging", "random", "socket", "threading", "time")
    ),
)
"""Package, imported module, and the contract that forbids it."""


@pytest.fixture(scope="module")
def broken_contracts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Plant all forbidden imports. Return the report on each broken contract, by its name."""
    copy = copy_package(tmp_path_factory.mktemp("forbidden"))
    for number, (package, imported, _) in enumerate(FORBIDDEN_IMPORTS):
        for missing in (package, imported.removeprefix("creekdb.")):
            if imported.startswith("creekdb.") and "." not in missing:
                (copy / "creekdb" / missing).mkdir(exist_ok=True)
                (copy / "creekdb" / missing / "__init__.py").touch()
        (copy / "creekdb" / package / f"added_{number}.py").write_text(f"import {imported}\n")

    checked = lint_imports(copy)

    assert checked.returncode == 1
    broken = checked.stdout[checked.stdout.index("Broken contracts") :]
    titles = re.compile(r"^(\S.*)\n-+$", re.MULTILINE)
    names = titles.findall(broken)
    return dict(zip(names, titles.split(broken)[2::2], strict=True))


@pytest.mark.parametrize("number", range(len(FORBIDDEN_IMPORTS)))
def test_forbidden_imports_are_reported(number: int, broken_contracts: dict[str, str]) -> None:
    package, imported, contract = FORBIDDEN_IMPORTS[number]
    (report,) = (text for name, text in broken_contracts.items() if name.startswith(contract))

    assert f"creekdb.{package}.added_{number} -> {imported} (l.1)" in report


@pytest.mark.parametrize(
    ("package", "imported"),
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
def test_permitted_imports_are_accepted(package_copy: Path, package: str, imported: str) -> None:
    (package_copy / "creekdb" / package / "added.py").write_text(f"import {imported}\n")

    checked = lint_imports(package_copy)

    assert f"creekdb.{package}.added" not in checked.stdout


def test_a_package_without_a_contract_is_reported(package_copy: Path) -> None:
    (package_copy / "creekdb" / "later").mkdir()
    (package_copy / "creekdb" / "later" / "__init__.py").touch()

    checked = lint_imports(package_copy)

    assert checked.returncode == 1
    assert "later" in checked.stdout


def mirrored_directory(directory: Path) -> Path:
    for tests, sources in SOURCES.items():
        if directory.is_relative_to(tests):
            return sources / directory.relative_to(tests)
    raise AssertionError(f"{directory} is not a directory of unit tests")


def candidates(test: Path) -> Iterator[Path]:
    """Return the paths of which one must exist: modules, and the package of the test."""
    directory = mirrored_directory(test.parent)
    words = test.stem.removeprefix("test_").split("_")
    for count in range(len(words), 0, -1):
        name = "_".join(words[:count])
        yield directory / f"{name}.py"
        yield directory / f"_{name}.py"
        if name == directory.name:
            yield directory / "__init__.py"


def test_every_unit_test_is_named_after_its_module() -> None:
    """Files directly in `tests/unit` test the project itself, for example its README."""
    homeless = [
        f"{path} tests no module of {mirrored_directory(path.parent)}/"
        for absolute in sorted((ROOT / UNIT_TESTS).rglob("test_*.py"))
        if (path := absolute.relative_to(ROOT)).parent != UNIT_TESTS
        and not any((ROOT / each).is_file() for each in candidates(path))
    ]

    assert not homeless, "\n".join(
        (
            *homeless,
            "Move or rename each to tests/unit/<path>/test_<module>[_<topic>].py, where <path>/"
            "<module>.py is the module under test, or to tests/unit/<path>/test_<package>[_<topic>]"
            ".py for a topic of the whole package. Tests of several packages do not belong in "
            "tests/unit.",
        )
    )


def constraints() -> list[str]:
    return (ROOT / "constraints.txt").read_text().splitlines()


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_constraint_is_an_exact_pin_without_a_url() -> None:
    assert [line for line in constraints() if not PIN.fullmatch(line)] == []


def test_installed_packages_are_pinned_at_their_versions() -> None:
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
    on_demand = extra_dependencies("bench") | extra_dependencies("release")
    assert pinned.keys() - installed.keys() <= on_demand  # see `make bench`, `make release`


def extra_dependencies(name: str) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    dependencies = project["optional-dependencies"][name]
    return {normalised(re.split(r"[^\w.-]", each)[0]) for each in dependencies}


def project_files() -> Iterator[Path]:
    for directory, names, files in os.walk(ROOT):
        names[:] = [
            name
            for name in names
            if name not in EXCLUDED_DIRECTORIES
            and not name.endswith(".egg-info")
            and (not name.startswith(".") or name == ".ci")
        ]
        yield from (Path(directory, file) for file in files)


def test_no_file_names_a_package_registry() -> None:
    matches = [
        str(path.relative_to(ROOT))
        for path in project_files()
        if REGISTRY.search(path.read_text(encoding="utf-8", errors="replace"))
    ]

    assert matches == []
