"""Proxies show the operations to people and to tools."""

import inspect
import rlcompleter
from typing import Any

import pytest

import creekdb
from creekdb.client import Database
from tests.unit.client.test_operations import SHOP, buy


@pytest.fixture
def db() -> Database:
    return creekdb.connect("127.0.0.1:7100", SHOP)


def test_dir_lists_the_operations_that_are_identifiers(db: Database) -> None:
    names = dir(db.weak)
    assert {"after", "buy", "noop", "within"} <= set(names)
    assert "odd name" not in names


def test_prompts_complete_operations(db: Database) -> None:
    completer = rlcompleter.Completer({"db": db})
    assert completer.complete("db.weak.bu", 0) == "db.weak.buy("
    assert completer.complete("db.strong.no", 0) == "db.strong.noop()"
    assert completer.complete("db.weak.odd", 0) is None


def test_an_operation_has_a_signature_and_a_docstring(db: Database) -> None:
    operation: Any = db.weak.buy
    signature = "(item: str, pieces: int = 1, note: str = '') -> int"
    assert str(inspect.signature(operation)) == signature
    assert operation.__doc__.endswith("note: str = '')\n\nBuy an item.")
    assert operation.__name__ == "buy"


def test_an_unknown_operation_has_no_signature(db: Database) -> None:
    operation: Any = db.weak.sell
    assert not hasattr(operation, "__signature__")
    assert repr(operation) == "<weak operation sell>"


def test_proxies_are_shown_with_their_operations(db: Database) -> None:
    assert repr(db.strong).startswith("<strong calls of buy(item: str, pieces: int = 1")
    assert repr(db.weak.buy).startswith("<weak operation buy(item: str")
    assert repr(creekdb.connect("127.0.0.1:7100").weak) == (
        "<weak calls of operations, once connected>"
    )


def test_private_names_are_no_operations(db: Database) -> None:
    for name in ("_repr_html_", "_ipython_display_", "__wrapped__"):
        assert not hasattr(db.weak, name)


def test_a_function_that_is_no_operation_is_rejected_at_once(db: Database) -> None:
    with pytest.raises(creekdb.UnknownName, match="unknown operation of shop 'sorted'"):
        db.weak(sorted, "lamp")  # type: ignore[call-overload]
    with pytest.raises(creekdb.NotDone, match="not connected"):
        db.weak(buy, "lamp")
