import math
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.execution.keys import check_key, collation_key
from creekdb.sql.key_codec import Codec, SqlValue, Unencodable, decode, encode, integer_bounds

TEXTS = st.text(st.sampled_from("aAbB \0é\U0010ffff01"), max_size=3)
BLOBS = st.binary(max_size=2)
NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-3, 3),
    st.integers(2**53 - 2, 2**53 + 2),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from((0.0, -0.0, 1.0, 2.0**53, 2.0**62, 9.3e18, -9.3e18, 5e-324)),
)
VALUES = st.one_of(st.none(), NUMBERS, TEXTS, BLOBS)
COLLATIONS = st.sampled_from(("BINARY", "NOCASE", "RTRIM"))
CONNECTION = apsw.Connection(":memory:")


def sqlite_order(left: SqlValue, right: SqlValue, collation: str) -> int:
    """Compare as SQLite orders an untyped column with this collation."""
    query = (
        f"WITH v(n, x) AS (VALUES (0, ?1), (1, ?2)) SELECT n, "
        f"dense_rank() OVER (ORDER BY x COLLATE {collation}) FROM v ORDER BY n"
    )
    ranks: list[Any] = [row[1] for row in CONNECTION.execute(query, (left, right))]
    return int(ranks[0]) - int(ranks[1])


def sign(number: int) -> int:
    return (number > 0) - (number < 0)


def key_order(left: Any, right: Any) -> int:
    first, second = collation_key((left,)), collation_key((right,))
    return (first > second) - (first < second)


@given(VALUES, VALUES, COLLATIONS)
def test_general_components_have_the_order_of_sqlite(
    left: SqlValue, right: SqlValue, collation: str
) -> None:
    first, second = (encode(each, Codec.GENERAL, collation) for each in (left, right))

    check_key((first, second))
    assert key_order(first, second) == sign(sqlite_order(left, right, collation))


@given(st.one_of(st.none(), TEXTS, BLOBS), st.one_of(st.none(), TEXTS, BLOBS), COLLATIONS)
def test_text_components_have_the_order_of_sqlite(
    left: SqlValue, right: SqlValue, collation: str
) -> None:
    first, second = (encode(each, Codec.TEXT, collation) for each in (left, right))

    check_key((first, second))
    assert key_order(first, second) == sign(sqlite_order(left, right, collation))


@pytest.mark.parametrize("codec", [Codec.GENERAL, Codec.TEXT])
def test_texts_with_nul_have_the_order_of_sqlite_under_nocase(codec: Codec) -> None:
    texts = ["a", "a\0", "a\0b", "A\0c", "a\0bc", "a\0é", "a\0zzz", "a\1", "ab", "ab\0"]
    for left in texts:
        for right in texts:
            first, second = (encode(each, codec, "NOCASE") for each in (left, right))
            assert key_order(first, second) == sign(sqlite_order(left, right, "NOCASE"))


def test_plain_values_are_readable() -> None:
    assert encode(7, Codec.INTEGER, "BINARY") == 7
    assert encode("ann", Codec.TEXT, "BINARY") == "ann"
    assert encode("Ann ", Codec.TEXT, "NOCASE") == "ann "
    assert encode("Ann ", Codec.TEXT, "RTRIM") == "Ann"


@pytest.mark.parametrize(
    ("value", "codec"), [(1.5, Codec.INTEGER), (None, Codec.INTEGER), (1, Codec.TEXT)]
)
def test_a_value_of_another_type_is_not_encodable(value: SqlValue, codec: Codec) -> None:
    with pytest.raises(Unencodable):
        encode(value, codec, "BINARY")


def test_equal_numbers_have_one_component() -> None:
    assert encode(1, Codec.GENERAL, "BINARY") == encode(1.0, Codec.GENERAL, "BINARY")
    assert encode(0.0, Codec.GENERAL, "BINARY") == encode(-0.0, Codec.GENERAL, "BINARY")


def test_integer_bounds_include_every_integer_between_them() -> None:
    assert integer_bounds(1.5, 3.5) == (2, 3)
    assert integer_bounds(-1.5, 4) == (-1, 4)
    assert integer_bounds("a", math.inf) == (None, None)


@given(VALUES, st.sampled_from(Codec))
def test_decoding_gives_a_value_with_the_same_component(value: SqlValue, codec: Codec) -> None:
    try:
        component = encode(value, codec, "BINARY")
    except Unencodable:
        return
    decoded = decode(component, codec)

    assert decoded == value
    assert encode(decoded, codec, "BINARY") == component
