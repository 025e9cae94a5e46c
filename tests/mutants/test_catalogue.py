"""The mutants are what they say: edits that apply, code that compiles, faults that are caught.

All of them are run by `make mutants`; here only a few that are caught at once.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.catalogue import Edit, Mutant
from tests.mutants.patched import PACKAGE, DoesNotApply, patched
from tests.mutants.run import EXAMINER, MUTANTS, examine, main

QUICK = (
    "deliver_before_predicate",
    "delivered_out_of_order",
    "context_with_uncommitted_strong",
    "commit_in_order_of_identifiers",
    "answer_waits_for_a_vote",
    "answer_waits_for_its_commit",
)


def named(name: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if mutant.name == name)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_applies_and_compiles(mutant: Mutant) -> None:
    for file, text in patched(mutant).items():
        assert text != (PACKAGE / file).read_text(encoding="utf-8")
        compile(text, file, "exec")


def test_there_are_enough_mutants_and_each_has_its_own_name_and_effect() -> None:
    names = Counter(mutant.name for mutant in MUTANTS)
    effects = Counter(tuple(sorted(patched(mutant).items())) for mutant in MUTANTS)

    assert len(MUTANTS) >= 25
    assert names.most_common(1)[0][1] == 1
    assert effects.most_common(1)[0][1] == 1
    assert all(mutant.seeds >= 20 for mutant in MUTANTS)


@pytest.mark.parametrize("before", ["import ", "no such text"], ids=["twice", "never"])
def test_an_edit_that_does_not_apply_exactly_once_is_an_error(before: str) -> None:
    mutant = Mutant("outdated", "none", 20, (Edit("schemes/basic.py", before, ""),))

    with pytest.raises(DoesNotApply, match=r"outdated: this occurs \d+ times in schemes/basic.py"):
        patched(mutant)


@pytest.mark.parametrize("name", QUICK)
def test_the_fuzzer_catches_it(name: str) -> None:
    mutant = named(name)

    assert examine(mutant, mutant.seeds, lambda: None).caught_by is not None


def test_the_package_as_it_is_passes() -> None:
    passed: list[None] = []

    result = examine(None, 5, lambda: passed.append(None))

    assert result.caught_by is None
    assert len(passed) == result.seeds == 5


def test_the_examiner_refuses_another_copy_of_the_package(tmp_path: Path) -> None:
    examined = subprocess.run(
        [sys.executable, EXAMINER, tmp_path, "basic", "0", "1"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert examined.returncode == 1
    assert "creek was loaded from" in examined.stderr
    assert examined.stdout == ""


def test_an_unknown_name_is_a_mistake_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no_such_mutant"]) == 2
    complaint = capsys.readouterr().err

    assert complaint == "no mutant is called no_such_mutant; --list shows them all\n"
