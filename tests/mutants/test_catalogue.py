"""Checks of the mutants: their edits apply, the code compiles, and examinations detect them.

`make mutants` runs all mutants. These tests run a few that the first seeds detect.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.catalogue import AnyMutant, Edit, Mutant, MutantWithTests
from tests.mutants.patching import PACKAGE, EditMismatch, patched_files
from tests.mutants.run import EXAMINER, MUTANTS, REPOSITORY, TESTER, examine, main

DETECTED_EARLY = (
    "delivers_before_predicate_holds",
    "delivers_out_of_order",
    "context_includes_uncommitted_strong",
    "commits_in_identifier_order",
    "response_waits_for_vote",
    "response_waits_for_commit",
)
DETECTED_BY_TEST = "counter_increments_backwards"
COUNTER_TESTS = "tests/unit/datatypes/test_counter.py"
MUTANTS_MIN = 250


def mutant_named(name: str) -> AnyMutant:
    return next(mutant for mutant in MUTANTS if mutant.name == name)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_applies_and_compiles(mutant: AnyMutant) -> None:
    for file, text in patched_files(mutant).items():
        assert text != (PACKAGE / file).read_text(encoding="utf-8")
        compile(text, file, "exec")


def test_mutants_have_unique_names_and_effects() -> None:
    names = Counter(mutant.name for mutant in MUTANTS)
    effects = Counter(tuple(sorted(patched_files(mutant).items())) for mutant in MUTANTS)

    assert len(MUTANTS) >= MUTANTS_MIN
    assert names.most_common(1)[0][1] == 1
    assert effects.most_common(1)[0][1] == 1
    assert all(mutant.seeds >= 20 for mutant in MUTANTS if isinstance(mutant, Mutant))


def test_every_package_has_mutants() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    mutated = {edit.file.split("/")[0] for mutant in MUTANTS for edit in mutant.edits}

    assert packages
    assert packages <= mutated


def test_the_tests_that_mutants_name_exist() -> None:
    named = {
        test
        for mutant in MUTANTS
        if isinstance(mutant, MutantWithTests)
        for test in (mutant.tests or ("no test",))
    }

    for test in named:
        file, _, name = test.partition("::")
        text = (REPOSITORY / file).read_text(encoding="utf-8")
        assert f"def {name.partition('[')[0]}" in text, test


@pytest.mark.parametrize("before", ["import ", "no such text"], ids=["twice", "never"])
def test_an_edit_that_does_not_apply_exactly_once_raises_an_error(before: str) -> None:
    mutant = Mutant("outdated", "none", 20, (Edit("schemes/basic.py", before, ""),))

    with pytest.raises(
        EditMismatch, match=r"outdated: this text occurs \d+ times in schemes/basic.py"
    ):
        patched_files(mutant)


@pytest.mark.parametrize("name", DETECTED_EARLY)
def test_the_fuzzer_detects_the_mutant(name: str) -> None:
    result = examine(mutant_named(name))

    assert result.caught_by is not None
    assert result.seed is not None


def test_a_named_test_detects_the_mutant() -> None:
    result = examine(mutant_named(DETECTED_BY_TEST))

    assert result.caught_by is not None
    assert result.caught_by.startswith("test_counter.py::test_")
    assert result.seed is None


@pytest.mark.parametrize(
    "control",
    [
        Mutant("control", "none", 5, (), "differential"),
        MutantWithTests("control", "none", (COUNTER_TESTS,), ()),
    ],
    ids=["seeds", "tests"],
)
def test_the_unmodified_package_passes(control: AnyMutant) -> None:
    passed: list[None] = []

    result = examine(control, lambda: passed.append(None))

    assert result.caught_by is None
    assert len(passed) == result.passed >= 3


def test_tests_that_cannot_run_do_not_count_as_detection() -> None:
    edits = (Edit("datatypes/counter.py", "COUNTER = ", "COUNTER = = "),)
    mutant = MutantWithTests("syntax_error", "none", (COUNTER_TESTS,), edits)

    result = examine(mutant)

    assert result.caught_by is None
    assert result.error is not None
    assert "SyntaxError" in result.error


@pytest.mark.parametrize(
    "arguments",
    [(EXAMINER, "basic", "0", "1"), (TESTER, COUNTER_TESTS)],
    ids=["examiner", "tester"],
)
def test_a_script_rejects_another_copy_of_the_package(
    arguments: tuple[Path | str, ...], tmp_path: Path
) -> None:
    script, *others = arguments
    examined = subprocess.run(
        [sys.executable, script, tmp_path, *others],
        capture_output=True,
        text=True,
        check=False,
    )

    assert examined.returncode == 1
    assert "creek was loaded from" in examined.stderr
    assert examined.stdout == ""


def test_an_unknown_name_is_reported_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no_such_mutant"]) == 2
    message = capsys.readouterr().err

    assert message == "unknown mutant: no_such_mutant; --list shows all names\n"
