"""Compares the table of exhausted scopes with explorations: `python -m tests.docs.exploration`.

Arguments are the names of scopes. Without any, all scopes of the table are explored, which takes a
while. Exits with 1 if a number differs, or if the table lacks a scope.
"""

import re
import sys
from typing import Final, NamedTuple

from creekdb.exploration.scope import SCOPES, get_scope
from creekdb.exploration.search import Exploration, Explorer
from creekdb.schemes.registry import get_spec
from tests.docs.pages import DOCS

PAGE: Final = DOCS / "explore.md"
SCHEME: Final = "creek"
STATES_MAX: Final = 1_000_000
_ROW: Final = re.compile(r"^\| `(?P<scope>[\w-]+)` \| (?P<counts>[\d, |]+) \|$", re.MULTILINE)


class Counts(NamedTuple):
    """Numbers of one row, in the order of the columns."""

    states: int
    transitions: int
    depth: int
    terminal_states: int
    local_steps: int


def stated_counts(page: str | None = None) -> dict[str, Counts]:
    """Return the rows of the table, by scope."""
    text = PAGE.read_text(encoding="utf-8") if page is None else page
    return {
        row["scope"]: Counts(*(int(each.replace(",", "")) for each in row["counts"].split("|")))
        for row in _ROW.finditer(text)
    }


def explored_counts(scope: str) -> Counts:
    """Explore the scope. Raise `AssertionError` if it is not exhausted without a violation."""
    return counts_of(Explorer(get_scope(scope), get_spec(SCHEME)).search(STATES_MAX))


def counts_of(found: Exploration) -> Counts:
    """Return the counts of an exhausted exploration."""
    assert found.violation is None, found.violation
    assert found.is_exhausted, f"{found.scope.name} has more than {STATES_MAX} states"
    return Counts(
        found.states, found.transitions, found.depth, found.terminal_states, found.local_steps
    )


def main(scopes: list[str]) -> int:
    stated, differ = stated_counts(), False
    for scope in scopes or SCOPES:
        explored = explored_counts(scope)
        is_equal = stated.get(scope) == explored
        differ |= not is_equal
        outcome = "as stated" if is_equal else f"stated as {stated.get(scope)}"
        print(f"{scope}: {explored}, {outcome}", flush=True)
    return int(differ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
