"""Validation of arguments, with errors that name the accepted values."""

import sys
from typing import Any

import pytest

import creekdb
from creekdb import BadValue
from creekdb.client.arguments import SECONDS_MAX, address_list, call_id, checked_seconds
from creekdb.protocol.ids.version_vector import Dot


@pytest.mark.parametrize("call", [Dot(0, 17), (0, 17), [0, 17], "0.17"])
def test_a_call_id_is_accepted_in_each_encoding(call: Any) -> None:
    assert call_id(call) == Dot(0, 17)


@pytest.mark.parametrize(
    "value",
    ["17", "a.b", 17, None, (1, 2, 3), (True, 2), (0, 2**64), (2**64, 1), f"0.{2**64}"],
)
def test_a_value_that_is_no_call_id_is_rejected(value: Any) -> None:
    with pytest.raises(BadValue, match="'after' takes calls or their ids, not"):
        call_id(value)


@pytest.mark.parametrize("value", ["2", None, True, 0, -1, float("nan"), float("inf")])
def test_a_timeout_must_be_a_positive_finite_number(value: Any) -> None:
    with pytest.raises(BadValue, match="timeout must be"):
        checked_seconds("timeout", value)


@pytest.mark.parametrize("value", [1e300, 10**400, sys.maxsize])
def test_a_timeout_beyond_a_lifetime_waits_as_long(value: float) -> None:
    """In milliseconds, it exceeded the integers of a message."""
    assert checked_seconds("timeout", value) == SECONDS_MAX
    assert checked_seconds("timeout", 60) == 60


def test_addresses_must_be_strings() -> None:
    assert address_list("a:1, b:2") == address_list(["a:1 ", "b:2"]) == ["a:1", "b:2"]
    for invalid in (7100, [7100]):
        with pytest.raises(BadValue, match=r"'HOST:PORT', not 7100"):
            address_list(invalid)


def test_connect_rejects_invalid_arguments() -> None:
    with pytest.raises(BadValue, match="write HOST:PORT"):
        creekdb.connect("http://127.0.0.1:7300")
    with pytest.raises(BadValue, match="timeout must be a number of seconds above 0, not -1"):
        creekdb.connect("127.0.0.1:7100", timeout=-1)
    with pytest.raises(BadValue, match="patience must be a number of seconds, not 'x'"):
        creekdb.connect("127.0.0.1:7100", patience="x")  # type: ignore[arg-type]


def test_a_call_outside_with_fails_immediately() -> None:
    db = creekdb.connect("127.0.0.1:7100")
    assert "not connected: use 'with' or 'async with'" in repr(db)
    with pytest.raises(creekdb.NotDone, match="inside 'with connect"):
        db.weak.put("lamp", 3)
