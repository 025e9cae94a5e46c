"""Parameters and type codes."""

import enum
from datetime import UTC, date, datetime, time
from decimal import Decimal

import numpy
import pytest

from creekdb.dbapi import types
from creekdb.dbapi.errors import DataError, ProgrammingError


class Size(enum.IntEnum):
    LARGE = 3


@pytest.mark.parametrize(
    ("value", "converted"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "2026-01-02 03:04:05.000006+00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (time(3, 4), "03:04:00"),
        (bytearray(b"a"), b"a"),
        (memoryview(b"a"), b"a"),
        (Size.LARGE, 3),
        (numpy.int64(3), 3),
        (numpy.float64(0.5), 0.5),
        (True, True),
        (None, None),
    ],
)
def test_parameters_become_values_of_sql(value: object, converted: object) -> None:
    result = types.convert_parameter(value)
    assert (result, type(result)) == (converted, type(converted))


def test_parameters_are_a_sequence_or_a_mapping() -> None:
    assert types.convert_parameters([1, "a"]) == (1, "a")
    assert types.convert_parameters({"a": date(2026, 1, 2)}) == {"a": "2026-01-02"}
    for wrong in ("tea", b"tea", 3):
        with pytest.raises(ProgrammingError, match="sequence or a mapping"):
            types.convert_parameters(wrong)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (2**63, "an integer beyond 64 bits"),
        (-(2**63) - 1, "an integer beyond 64 bits"),
        (float("inf"), "inf, which SQL cannot store"),
        (float("nan"), "nan, which SQL cannot store"),
        (Decimal("1.5"), "a Decimal"),
        ((1, 2), "a tuple"),
    ],
)
def test_a_parameter_that_sql_cannot_hold_is_named(value: object, problem: str) -> None:
    with pytest.raises(DataError, match=f"parameter 2 is {problem}"):
        types.convert_parameters((1, value))
    with pytest.raises(DataError, match=f"parameter price is {problem}"):
        types.convert_parameters({"price": value})
    assert types.convert_parameters((2**63 - 1, -(2**63))) == (2**63 - 1, -(2**63))


def test_type_codes_equal_the_types_of_their_values() -> None:
    for code, kind in (("NUMBER", int), ("NUMBER", float), ("STRING", str), ("BINARY", bytes)):
        assert getattr(types, code) == kind
    for code, kind in (("STRING", int), ("DATETIME", str)):
        assert getattr(types, code) != kind
    assert len({types.STRING, types.BINARY}) == 2
    assert repr(types.ROWID) == "ROWID"


def test_ticks_are_seconds_in_utc() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()
    assert types.DateFromTicks(moment) == date(2026, 1, 2)
    assert types.TimeFromTicks(moment) == time(3, 4, 5)
    assert types.TimestampFromTicks(moment) == datetime.fromisoformat("2026-01-02 03:04:05")
