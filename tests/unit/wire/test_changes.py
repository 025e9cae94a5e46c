"""Changes of the feed: their encoding, their filter, and the texts of their positions."""

import pytest

from creekdb.errors import MalformedMessage
from creekdb.protocol.ids.version_vector import Dot
from creekdb.wire.changes import (
    EARLIEST,
    LATEST,
    Change,
    KeyFilter,
    decode_changes,
    encode_changes,
    parse_start,
)


def change(*writes: object, deleted: tuple[object, ...] = ()) -> Change:
    items = tuple((key, 1) for key in writes)
    return Change(7, Dot(0, 1), 5, "put", ([1, [2]],), True, None, [3], None, items, deleted)  # type: ignore[arg-type]


def test_a_change_is_frozen_and_survives_its_encoding() -> None:
    original = change("a", ("b", 1))
    (decoded,) = decode_changes(encode_changes([original]))

    assert decoded == original
    assert decoded.arguments == ((1, (2,)),)
    assert decoded.value == (3,)
    assert decoded.writes == (("a", 1), (("b", 1), 1))
    assert decoded.replica == 0


def test_malformed_changes_are_rejected() -> None:
    with pytest.raises(MalformedMessage):
        decode_changes(b"\x91\x01")


@pytest.mark.parametrize(
    ("prefix", "selected"),
    [
        ("la", ["lamp"]),
        ("", ["lamp", "chair"]),
        (("row",), [("row", 1), ("row", 2)]),
        (("row", 1), [("row", 1)]),
        ((), [("row", 1), ("row", 2)]),
    ],
)
def test_a_prefix_selects_keys_of_its_type(
    prefix: str | tuple[str | int, ...], selected: list[object]
) -> None:
    matching = KeyFilter(prefix).select(change("lamp", "chair", 3, ("row", 1), ("row", 2)))

    assert matching is not None
    assert [key for key, _ in matching.writes] == selected


def test_a_filter_keeps_deletions_and_drops_other_changes() -> None:
    matching = KeyFilter("la").select(change("chair", deleted=("lamp", "chair")))

    assert matching is not None
    assert (matching.writes, matching.deleted) == ((), ("lamp",))
    assert KeyFilter("x").select(change("chair")) is None


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        ("1", 1),
        ("4711", 4711),
        ("0", None),
        ("-1", None),
        ("", None),
        ("9" * 19, None),
        ("²", None),
        ("now", None),
    ],
)
def test_the_text_of_a_start_is_parsed(text: str, start: int | None) -> None:
    assert parse_start(text) == start
