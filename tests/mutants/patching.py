"""Copies of the package with the edits of a mutant."""

import shutil
from pathlib import Path

from tests.mutants.catalogue import AnyMutant

PACKAGE = Path(__file__).parents[2] / "src" / "creekdb"


class EditMismatch(Exception):
    """An edit does not match the current source, so the mutant must be updated."""


def patched_files(mutant: AnyMutant, package: Path = PACKAGE) -> dict[str, str]:
    """Return the new text of each edited file. Every edit must apply exactly once."""
    texts: dict[str, str] = {}
    for edit in mutant.edits:
        text = texts.get(edit.file) or (package / edit.file).read_text(encoding="utf-8")
        count = text.count(edit.before)
        if count != 1:
            raise EditMismatch(
                f"{mutant.name}: this text occurs {count} times in {edit.file}, not once; "
                f"update the mutant:\n{edit.before}"
            )
        texts[edit.file] = text.replace(edit.before, edit.after)
    return texts


def copy_package(into: Path, mutant: AnyMutant | None = None) -> None:
    """Copy the package, with the edits of the mutant, to the directory `into`.

    The copies keep their modification times, so the copied bytecode of unedited files is valid.
    """
    copied_package = into / PACKAGE.name
    shutil.copytree(PACKAGE, copied_package)
    if mutant is not None:
        for file, text in patched_files(mutant, copied_package).items():
            (copied_package / file).write_text(text, encoding="utf-8")
