"""Unit tests mirror the modules, so that the tests of a module are found by its name."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
UNIT_TESTS = Path("tests/unit")
SOURCES = {
    UNIT_TESTS / "benchmarks": Path("benchmarks"),
    UNIT_TESTS / "tools": Path("tools"),
    UNIT_TESTS: Path("src/creekdb"),
}
"""Directories of tests, and the directories that they mirror. The first match applies."""


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
