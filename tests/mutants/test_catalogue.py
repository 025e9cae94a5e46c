"""Checks of the mutants: their edits apply, the code compiles, and the fuzzer detects them.

`make mutants` runs all mutants. These tests run a few that the first seeds detect.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.catalogue import Edit, Mutant
from tests.mutants.patching import PACKAGE, EditMismatch, patched_files
from tests.mutants.run import EXAMINER, MUTANTS, examine, main

DETECTED_EARLY = (
    "delivers_before_predicate_holds",
    "delivers_out_of_order",
    "context_includes_uncommitted_strong",
    "commits_in_identifier_order",
    "response_waits_for_vote",
    "response_waits_for_commit",
)


def mutant_named(name: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if mutant.name == name)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_applies_and_compiles(mutant: Mutant) -> None:
    for file, text in patched_files(mutant).items():
        assert text != (PACKAGE / file).read_text(encoding="utf-8")
        compile(text, file, "exec")


def test_mutants_have_unique_names_and_effects() -> None:
    names = Counter(mutant.name for mutant in MUTANTS)
    effects = Counter(tuple(sorted(patched_files(mutant).items())) for mutant in MUTANTS)

    assert len(MUTANTS) >= 25
    assert names.most_common(1)[0][1] == 1
    assert effects.most_common(1)[0][1] == 1
    assert all(mutant.seeds >= 20 for mutant in MUTANTS)


@pytest.mark.parametrize("before", ["import ", "no such text"], ids=["twice", "never"])
def test_an_edit_that_does_not_apply_exactly_once_raises_an_error(before: str) -> None:
    mutant = Mutant("outdated", "none", 20, (Edit("schemes/basic.py", before, ""),))

    with pytest.raises(
        EditMismatch, match=r"outdated: this text occurs \d+ times in schemes/basic.py"
    ):
        patched_files(mutant)


@pytest.mark.parametrize("name", DETECTED_EARLY)
def test_the_fuzzer_detects_the_mutant(name: str) -> None:
    mutant = mutant_named(name)

    assert examine(mutant, mutant.seeds, lambda: None).caught_by is not None


def test_the_unmodified_package_passes() -> None:
    passed: list[None] = []

    result = examine(None, 5, lambda: passed.append(None))

    assert result.caught_by is None
    assert len(passed) == result.seeds == 5


def test_the_examiner_rejects_another_copy_of_the_package(tmp_path: Path) -> None:
    examined = subprocess.run(
        [sys.executable, EXAMINER, tmp_path, "basic", "0", "1"],
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
