"""Names and signatures of operations, from the data type or from a replica."""

import inspect
from typing import Any

import pytest

from creekdb.client.operations import OperationDirectory
from creekdb.errors import BadValue, UnknownName
from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction
from creekdb.server.calls.capabilities import operation_signatures
from creekdb.wire import messages

SHOP = DataType("shop")
UNSENDABLE = object()


@SHOP.operation
def buy(tx: Transaction, item: str, pieces: int = 1, note: str = "") -> int:
    """Buy an item."""
    return pieces


@SHOP.operation(name="odd name")
def odd(tx: Transaction, first: Any = UNSENDABLE, second: int = 2, *more: int) -> None: ...


def announced(has_signatures: bool = True) -> OperationDirectory:
    """Return the directory of a client without the data type."""
    directory = OperationDirectory(None)
    operations = tuple((name, False) for name in SHOP.operations)
    signatures = operation_signatures(SHOP) if has_signatures else ()
    welcome = messages.Welcome(1, "creek", 0, "shop", operations, "", signatures)
    [payload] = messages.FrameDecoder(10_000).feed(messages.encode_frame(welcome))
    received = messages.decode_server_message(payload)
    assert isinstance(received, messages.Welcome)
    directory.update(received)
    return directory


BOTH = pytest.mark.parametrize("directory", [OperationDirectory(SHOP), announced()])


@BOTH
def test_arguments_by_name_become_positional(directory: OperationDirectory) -> None:
    assert directory.positional("buy", ("lamp",), {}) == ("lamp",)
    assert directory.positional("buy", ("lamp",), {"note": "red"}) == ("lamp", 1, "red")
    assert directory.positional("buy", (), {"pieces": 2, "item": "lamp"}) == ("lamp", 2)


@BOTH
def test_mistakes_are_found_before_a_call_is_sent(directory: OperationDirectory) -> None:
    with pytest.raises(UnknownName, match="did you mean 'buy'"):
        directory.positional("bu", (), {})
    with pytest.raises(BadValue, match=r"buy\(item: str, .*\) -?.*has no parameter 'colour'"):
        directory.positional("buy", ("lamp",), {"colour": 1})
    with pytest.raises(BadValue, match="requires the argument 'item'"):
        directory.positional("buy", (), {"pieces": 1})
    with pytest.raises(BadValue, match="holds a value of type set"):
        directory.positional("buy", ({1},), {})


@BOTH
def test_signatures_are_shown(directory: OperationDirectory) -> None:
    assert directory.signature_text("buy") == "buy(item: str, pieces: int = 1, note: str = '')"
    signature = directory.signature("buy")
    assert signature is not None
    assert [*signature.parameters] == ["item", "pieces", "note"]
    assert signature.parameters["pieces"].default == 1
    variadic = directory.signature("odd name")
    assert variadic is not None
    assert variadic.parameters["more"].kind is inspect.Parameter.VAR_POSITIONAL
    assert directory.signature("sell") is None
    assert directory.signature_text("sell") == "sell"


def test_a_parameter_whose_default_cannot_be_sent_is_required() -> None:
    with pytest.raises(BadValue, match="requires the argument 'first'"):
        announced().positional("odd name", (), {"second": 3})


def test_an_older_replica_reports_no_names() -> None:
    directory = announced(has_signatures=False)
    assert directory.positional("buy", ("lamp",), {}) == ("lamp",)
    assert directory.signature_text("buy") == "buy(…)"
    assert directory.signature("buy") is None
    with pytest.raises(BadValue, match="does not report the names of parameters"):
        directory.positional("buy", (), {"item": "lamp"})


def test_a_function_is_found_by_its_declaration_or_by_its_name() -> None:
    assert OperationDirectory(SHOP).name_of(odd) == "odd name"
    assert announced().name_of(buy) == "buy"
    with pytest.raises(UnknownName, match="unknown operation of shop 'announced'"):
        OperationDirectory(SHOP).name_of(announced)
