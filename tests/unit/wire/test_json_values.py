"""JSON encoding and decoding of values."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.errors import BadValue
from creekdb.protocol.values import is_same_value
from creekdb.wire.json_values import from_json, to_json

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
