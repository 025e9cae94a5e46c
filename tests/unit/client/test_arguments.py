"""What a program hands to the client is looked at first, and a mistake says what is taken."""

from typing import Any

import pytest

import creekdb
from creekdb import BadValue
from creekdb.client.arguments import address_list, call_id, checked_seconds
from creekdb.protocol.ids.version_vector import Dot


@pytest.mark.parametrize("given", [Dot(0, 17), (0, 17), [0, 17], "0.17"])
def test_the_identifier_of_a_call_is_taken_as_it_may_have_travelled(given: Any) -> None:
    assert call_id(given) == Dot(0, 17)


@pytest.mark.parametrize("given", ["17", "a.b", 17, None, (1, 2, 3)])
def test_what_is_no_call_is_told_so(given: Any) -> None:
    with pytest.raises(BadValue, match="'after' takes calls, or what their 'id' is"):
        call_id(given)


@pytest.mark.parametrize("given", ["2", None, True, 0, -1, float("nan"), float("inf")])
def test_a_time_to_wait_is_a_number_above_zero(given: Any) -> None:
    with pytest.raises(BadValue, match="timeout is"):
        checked_seconds("timeout", given)


def test_addresses_are_texts() -> None:
    assert address_list("a:1, b:2") == address_list(["a:1 ", "b:2"]) == ["a:1", "b:2"]
    for wrong in (7100, [7100]):
        with pytest.raises(BadValue, match=r"'HOST:PORT', not 7100"):
            address_list(wrong)


def test_a_connection_is_refused_what_it_cannot_work_with() -> None:
    with pytest.raises(BadValue, match="write HOST:PORT"):
        creekdb.connect("http://127.0.0.1:7300")
    with pytest.raises(BadValue, match="timeout is -1"):
        creekdb.connect("127.0.0.1:7100", timeout=-1)
    with pytest.raises(BadValue, match="patience is a number of seconds, not 'x'"):
        creekdb.connect("127.0.0.1:7100", patience="x")  # type: ignore[arg-type]


def test_who_forgets_with_is_told_at_once() -> None:
    db = creekdb.connect("127.0.0.1:7100")
    assert "'with' or 'async with' connects" in repr(db)
    with pytest.raises(creekdb.NotDone, match="inside 'with connect"):
        db.weak.put("lamp", 3)
