import doctest
from typing import Any

import pytest

from creekdb.checkers.blackbox.history_files import edn
from creekdb.checkers.blackbox.history_files.edn import read_edn
from creekdb.checkers.blackbox.linearizability import models
from creekdb.errors import BadValue


@pytest.mark.parametrize("module", [edn, models])
def test_the_examples_hold(module: Any) -> None:
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("[true false]", (True, False)),
        ("-3", -3),
        ("12N", 12),
        ("1.5e3", 1500.0),
        ('"a ; b\\n{"', "a ; b\n{"),
        ("#{1 2}", (1, 2)),
        ("#jepsen.history.Op{:index 0, :f :read}", {"index": 0, "f": "read"}),
        ("{:a (1 [2]) ; comment\n :b nil}", {"a": (1, (2,)), "b": None}),
    ],
)
def test_values_are_read(text: str, value: Any) -> None:
    assert read_edn(text) == value


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "not complete"),
        ("{:a 1", "not complete"),
        ("{:a}", "pairs"),
        ("{[1] 2}", "pairs"),
        ("[1}", "unexpected '}'"),
        ("1 2", "unexpected '2' after the value"),
        ('"a', "unexpected character"),
        ("[" * 300 + "]" * 300, "nested more than 256 levels deep"),
        ("#a " * 300 + "1", "nested more than 256 levels deep"),
        ('"\\ud800"', "not a string"),
        ("9" * 5000, "not a number"),
    ],
)
def test_malformed_text_is_rejected(text: str, cause: str) -> None:
    with pytest.raises(BadValue, match=cause):
        read_edn(text)
