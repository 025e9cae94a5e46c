"""Copies of the package with a mutant in them."""

import shutil
from pathlib import Path

from tests.mutants.catalogue import Mutant

PACKAGE = Path(__file__).parents[2] / "src" / "creekdb"


class DoesNotApply(Exception):
    """The source has moved on: the mutant must be brought up to date."""


def patched(mutant: Mutant, package: Path = PACKAGE) -> dict[str, str]:
    """The new text of each file that the mutant touches; every edit must apply exactly once."""
    texts: dict[str, str] = {}
    for edit in mutant.edits:
        text = texts.get(edit.file) or (package / edit.file).read_text(encoding="utf-8")
        found = text.count(edit.before)
        if found != 1:
            raise DoesNotApply(
                f"{mutant.name}: this occurs {found} times in {edit.file}, not once:\n{edit.before}"
            )
        texts[edit.file] = text.replace(edit.before, edit.after)
    return texts


def copy_package(into: Path, mutant: Mutant | None = None) -> None:
    """Put the package, with the mutant in it, into the folder `into`."""
    copy = into / PACKAGE.name
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    if mutant is not None:
        for file, text in patched(mutant, copy).items():
            (copy / file).write_text(text, encoding="utf-8")
