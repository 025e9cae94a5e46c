"""Files of statements whose results on Creek and on plain SQLite are compared.

The corpus (`tests/sql/corpus/*.sql`) has one statement per line. A line may contain alternatives,
`«a¦b¦c»`; it stands for the statements with each combination of them. Lines that start with `--`
are comments. Each file has a database of its own.

`python -m tests.sql.logictest FILE…` also runs files of SQLite's sqllogictest (`*.test`), which are
not part of this project: `statement` and `query` records, with their conditions for SQLite. Their
expected results are those of plain SQLite on this machine.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from tests.sql.differential import Difference, Pair

CORPUS: Final = Path(__file__).parent / "corpus"
_ALTERNATIVES: Final = re.compile("«(.*?)»")
_READING: Final = ("SELECT", "WITH", "VALUES", "EXPLAIN", "PRAGMA")


class Executed(NamedTuple):
    """Numbers of executed statements."""

    queries: int = 0
    changes: int = 0
    errors: int = 0
    refused: int = 0


def expand(line: str) -> list[str]:
    """Return the statements that a line stands for."""
    parts = _ALTERNATIVES.split(line)
    choices = [part.split("¦") if index % 2 else [part] for index, part in enumerate(parts)]
    return ["".join(chosen) for chosen in product(*choices)]


def corpus_statements(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.strip() and not line.startswith("--"):
            yield from expand(line)


def logictest_statements(text: str) -> Iterator[str]:
    """Yield the statements of a sqllogictest file that apply to SQLite."""
    for record in re.split(r"\n\s*\n", text.replace("\r\n", "\n")):
        lines = [line for line in record.split("\n") if line and not line.startswith("#")]
        is_skipped = False
        while lines and lines[0].startswith(("onlyif", "skipif")):
            condition, system = lines.pop(0).split()[:2]
            is_skipped |= (condition == "onlyif") != (system == "sqlite")
        if not lines or is_skipped:
            continue
        if lines[0].startswith("halt"):
            return
        if lines[0].startswith(("statement", "query")):
            end = lines.index("----") if "----" in lines else len(lines)
            yield "\n".join(lines[1:end])


def statements_of(path: Path) -> Iterator[str]:
    text = path.read_text()
    return logictest_statements(text) if path.suffix == ".test" else corpus_statements(text)


def run_file(path: Path, check_every: int = 1) -> Executed:
    """Execute all statements of a file on a new pair of databases. Raise `Difference`.

    The tables are compared after every `check_every` changes, and at the end.
    """
    pair = Pair()
    queries = changes = errors = refused = 0
    for statement in statements_of(path):
        succeeded = pair.execute_supported(statement)
        if succeeded is None:
            refused += 1
            continue
        errors += not succeeded
        if statement.lstrip(" (").upper().startswith(_READING):
            queries += 1
            continue
        changes += 1
        if changes % check_every == 0:
            pair.check_state()
    pair.check_state()
    return Executed(queries, changes, errors, refused)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="*", type=Path, help="files; the corpus if none is given")
    parser.add_argument("--check-every", type=int, default=1, help="changes between comparisons")
    options = parser.parse_args()
    failures = 0
    total = Executed()
    for path in options.files or sorted(CORPUS.glob("*.sql")):
        try:
            executed = run_file(path, options.check_every)
        except Difference as difference:
            failures += 1
            print(f"{path}:", *str(difference).splitlines()[-12:], sep="\n")
            continue
        total = Executed(*(sum(pair) for pair in zip(total, executed, strict=True)))
        print(f"{path}: {executed.queries} queries, {executed.changes} changes", flush=True)
    print(f"{total.queries} queries, {total.changes} changes, {total.errors} errors on both")
    print(f"{total.refused} statements that Creek does not support")
    print(f"{failures} files with a difference")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
