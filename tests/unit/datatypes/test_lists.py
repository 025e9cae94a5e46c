import pytest

from creekdb.datatypes.lists import DUPLICATE_LENGTH_MAX, LIST
from creekdb.execution.sequential import OperationRaised


def test_reading_an_empty_list_raises() -> None:
    session = LIST.sequential()
    for name in ("pop_first", "get_first", "get_last"):
        with pytest.raises(OperationRaised, match="IndexError: the list is empty"):
            session.call(name)
    assert session.call("get_all") == ()
    assert session.call("duplicate") == ()
    assert session.call("shuffle") == ()
    assert session.call("length") == 0


def test_elements_are_removed_in_insertion_order() -> None:
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


def test_long_lists_are_not_duplicated() -> None:
    session = LIST.sequential()
    for value in range(DUPLICATE_LENGTH_MAX):
        session.call("append", value)
    assert len(session.call("duplicate")) == 2 * DUPLICATE_LENGTH_MAX
    with pytest.raises(OperationRaised, match="OverflowError: duplicate accepts at most 16"):
        session.call("duplicate")
