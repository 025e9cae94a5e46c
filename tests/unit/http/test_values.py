"""Values as JSON, and back."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.errors import BadValue
from creekdb.http.schema import from_json, to_json
from creekdb.protocol.values import is_same_value

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
    lambda inside: (
        st.lists(inside, max_size=3).map(tuple) | st.dictionaries(NAMES, inside, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_a_value_is_the_same_after_the_journey(value: Any) -> None:
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
def test_what_json_does_not_have_is_wrapped(value: Any, encoded: Any) -> None:
    assert to_json(value) == encoded
    assert from_json(encoded) == value


@pytest.mark.parametrize("wrong", [{"$bytes": 1}, {"$bytes": "%"}, {"$bytes": "é"}, {"$dict": 3}])
def test_a_wrapping_of_something_else_is_refused(wrong: Any) -> None:
    with pytest.raises(BadValue, match=r"'\$(bytes|dict)' holds no"):
        from_json([wrong])
