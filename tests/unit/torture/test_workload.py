"""Calls drawn from signatures, and workloads of users."""

import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest

from creekdb import DataType, datatypes
from creekdb.errors import UsageError
from creekdb.execution.argument_types import value_type
from creekdb.execution.transaction import Transaction
from creekdb.http.operations import OperationCatalog
from creekdb.http.schema import schema_of
from creekdb.torture.workload import (
    CALLS_PER_KEY,
    SHARED_KEYS,
    KvCalls,
    TransactionCalls,
    draw_arguments,
    draw_value,
    workload_of,
)

SHOP = DataType("shop")


@SHOP.operation
def order(
    tx: Transaction, item: str, count: int, size: Literal["S", "L"] = "S", *notes: str
) -> int:
    return count


@pytest.fixture
def user_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "torture_calls.py").write_text(
        "constant = 3\n"
        "def draw(random): return 'order', ('lamp', random.randint(1, 3)), True\n"
        "def unknown(random): return 'steal', (), False\n"
        "def malformed(random): return 'order'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torture_calls", raising=False)
    return "torture_calls"


def test_arguments_match_the_annotations_and_cover_optional_parameters() -> None:
    operation = OperationCatalog(SHOP).find("order")

    drawn = [draw_arguments(operation, Random(seed)) for seed in range(200)]

    assert {len(each) for each in drawn} >= {2, 3, 4, 5}
    for item, count, *rest in drawn:
        assert isinstance(item, str)
        assert isinstance(count, int)
        assert not rest or rest[0] in ("S", "L")
        assert all(isinstance(each, str) for each in rest[1:])


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (int, int),
        (float, float),
        (str, str),
        (bool, bool),
        (bytes, bytes),
        (None, type(None)),
        (list[int], tuple),
        (tuple[int, str], tuple),
        (dict[str, int], dict),
    ],
)
def test_a_drawn_value_has_the_annotated_type(annotation: Any, kind: type) -> None:
    schema = schema_of(value_type(annotation))

    assert {type(draw_value(schema, Random(seed))) for seed in range(20)} == {kind}


def test_a_union_gives_values_of_each_type() -> None:
    schema = schema_of(value_type(int | None))

    assert {type(draw_value(schema, Random(seed))) for seed in range(50)} == {int, type(None)}


@pytest.mark.parametrize("name", [*datatypes.DATATYPES, "shop"])
def test_calls_of_a_data_type_can_be_made_weak_and_strong(name: str) -> None:
    datatype = datatypes.DATATYPES.get(name, SHOP)
    source = workload_of(name, datatype)

    calls = [source(Random(seed), "client") for seed in range(100)]

    for call in calls:
        assert datatype.can_run(call.operation, len(call.arguments))
    assert {call.strong for call in calls} == {True, False}


def test_a_user_function_draws_the_calls(user_module: str) -> None:
    source = workload_of("shop:shop", SHOP, f"{user_module}:draw")

    call = source(Random(1), "client")

    assert (call.operation, call.arguments[0], call.strong) == ("order", "lamp", True)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("missing", "has no function 'missing'"),
        ("constant", "has no function 'constant'"),
        ("unknown", "steal"),
        ("malformed", "return the name of the operation"),
    ],
)
def test_a_wrong_user_function_is_rejected_before_a_replica_starts(
    user_module: str, function: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        workload_of("shop:shop", SHOP, f"{user_module}:{function}")


def test_kv_calls_have_keys_that_are_written_once_counted_or_shared() -> None:
    source, random = KvCalls(), Random(1)
    calls = [source(random, f"client {number % 4}") for number in range(400)]
    keys = [each.arguments[0] for each in calls if each.operation in ("put", "increment")]
    values = [each.arguments[1] for each in calls if each.operation == "put"]

    log = [key for key in keys if key.startswith("log ")]
    assert len(set(log)) == len(log) > 50
    assert {key for key in keys if key.endswith(" count")} == {
        f"client {n} count" for n in range(4)
    }
    assert len({key for key in keys if key.startswith("shared ")}) == 4 * SHARED_KEYS
    assert len(set(values)) == len(values)


def test_transactions_write_unique_values_on_keys_that_are_replaced() -> None:
    source, random = TransactionCalls(), Random(1)
    calls = [source(random, "client") for _ in range(300)]
    operations = [each for call in calls for each in call.arguments]
    values = [value for name, _, value in operations if name != "r"]

    assert len(set(values)) == len(values)
    assert {name for name, _, _ in operations} == {"append", "w", "r"}
    per_key = Counter(key for _, key, _ in operations)
    assert max(per_key.values()) < CALLS_PER_KEY


@pytest.mark.parametrize("name", datatypes.SAMPLERS)
def test_the_calls_of_ready_made_data_types_have_arguments_that_http_accepts(name: str) -> None:
    datatype, random = datatypes.DATATYPES[name], Random(1)
    source = workload_of(name, datatype)
    for _ in range(100):
        drawn = source(random, "client")
        datatype.checked_arguments(drawn.operation, drawn.arguments)
