"""JSON encoding and decoding of values."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.errors import BadValue
from creekdb.protocol.values import is_same_value
from creekdb.wire.json_values import from_json, tag_integers, to_json, untag_integer

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
)
NAMES = st.sampled_from(["$bytes", "$dict", "$", "a", ""])
VALUES = st.recursive(
    SCALARS,
    lambda values: (
        st.lists(values, max_size=3).map(tuple) | st.dictionaries(NAMES, values, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_a_value_survives_a_round_trip(value: Any) -> None:
    text = msgspec.json.encode(to_json(value))
    assert is_same_value(from_json(msgspec.json.decode(text)), value)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ((1, "a"), [1, "a"]),
        (b"\x00\x01", {"$bytes": "AAE="}),
        ({"$bytes": 1}, {"$dict": {"$bytes": 1}}),
        ({"$bytes": 1, "b": 2}, {"$bytes": 1, "b": 2}),
        ({"$dict": {}}, {"$dict": {"$dict": {}}}),
    ],
)
def test_values_without_a_json_type_are_wrapped(value: Any, encoded: Any) -> None:
    assert to_json(value) == encoded
    assert from_json(encoded) == value


@pytest.mark.parametrize("value", [{"$bytes": 1}, {"$bytes": "%"}, {"$bytes": "é"}, {"$dict": 3}])
def test_a_wrapper_with_wrong_content_is_rejected(value: Any) -> None:
    with pytest.raises(BadValue, match=r"'\$(bytes|dict)' must contain"):
        from_json([value])


@given(st.integers(-(2**63), 2**63 - 1) | st.integers(2**53 - 2, 2**53 + 2))
def test_a_reader_that_has_only_floats_receives_every_integer_exactly(value: int) -> None:
    text = json.dumps(tag_integers({"rows": [[value, -value]]}))
    received = json.loads(text, parse_int=float)["rows"][0]
    assert [int(untag_integer(each)) for each in received] == [value, -value]


def test_only_integers_beyond_53_bits_are_tagged() -> None:
    largest = 2**53 - 1
    values = [largest, -largest, True, 1e300, None, "9007199254740993", {"$bytes": "AA=="}]
    assert tag_integers(values) == values
    assert tag_integers([largest + 1, -largest - 1]) == [
        {"$integer": "9007199254740992"},
        {"$integer": "-9007199254740992"},
    ]


@pytest.mark.parametrize("digits", [9007199254740993, "", "1e3", "0x1", "\u0661", "1" * 20, None])
def test_a_tagged_integer_has_only_digits(digits: object) -> None:
    with pytest.raises(BadValue, match=r"'\$integer' must contain"):
        untag_integer({"$integer": digits})
