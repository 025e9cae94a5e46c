"""The page about exploration states what an exploration counts.

`tests/simulation/test_exploration.py` compares the two smallest scopes, which it explores anyway.
"""

import pytest

from creekdb.exploration.scope import SCOPES
from tests.docs.exploration import Counts, main, stated_counts


def test_every_scope_has_a_row() -> None:
    assert list(stated_counts()) == list(SCOPES)


def test_a_number_that_differs_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = Counts(1, 2, 3, 4, 5)
    monkeypatch.setattr("tests.docs.exploration.explored_counts", lambda scope: counts)

    assert main(["smallest"]) == 1
    assert "stated as Counts(states=" in capsys.readouterr().out
    assert stated_counts("| `a-b` | 1 | 2,000 | 3 | 4 | 5 |\n") == {
        "a-b": Counts(1, 2_000, 3, 4, 5)
    }
