import pytest

from creekdb.datatypes.lists import DUPLICATE_LENGTH_MAX, LIST
from creekdb.execution.sequential import OperationRaised


def test_an_empty_list_has_no_elements_to_give() -> None:
    session = LIST.sequential()
    for name in ("pop_first", "get_first", "get_last"):
        with pytest.raises(OperationRaised, match="IndexError: the list is empty"):
            session.call(name)
    assert session.call("get_all") == ()
    assert session.call("duplicate") == ()
    assert session.call("shuffle") == ()
    assert session.call("length") == 0


def test_elements_leave_in_the_order_they_came() -> None:
    session = LIST.sequential()
    for value in range(12):
        assert session.call("append", value) == value + 1
    assert [session.call("pop_first") for _ in range(12)] == list(range(12))
    assert session.call("append", "anew") == 1
    assert session.state == {("item", 0): "anew"}


def test_shuffling_keeps_the_elements() -> None:
    session = LIST.sequential()
    for value in range(20):
        session.call("append", value)
    shuffled = session.call("shuffle")
    assert shuffled == session.call("get_all") != tuple(range(20))
    assert sorted(shuffled) == list(range(20))


def test_only_short_lists_are_duplicated() -> None:
    session = LIST.sequential()
    for value in range(DUPLICATE_LENGTH_MAX):
        session.call("append", value)
    assert len(session.call("duplicate")) == 2 * DUPLICATE_LENGTH_MAX
    with pytest.raises(OperationRaised, match="OverflowError: only lists of up to 16"):
        session.call("duplicate")
