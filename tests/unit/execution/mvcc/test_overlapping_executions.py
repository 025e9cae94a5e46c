"""What happens to an execution while others are installed, withdrawn, moved and settled."""

from creekdb.execution.mvcc.register_table import RECENT_CHANGES_MIN
from tests.unit.execution.mvcc.store_fixture import Shelf


def test_what_was_written_elsewhere_meanwhile_is_no_concern() -> None:
    shelf = Shelf()
    shelf.do(10, ("put", "a", 1))
    attempt = shelf.begin(shelf.put(30, ("get", "a"), ("get", "b")))
    shelf.do(20, ("put", "c", 1))
    shelf.do(40, ("put", "a", 2))

    assert shelf.finish(attempt)


def test_what_was_written_to_a_register_that_nobody_had_written_to_is_a_conflict() -> None:
    shelf = Shelf()
    attempt = shelf.begin(shelf.put(30, ("get", "a"), ("get", "b")))
    shelf.do(20, ("put", "b", 1))

    assert not shelf.finish(attempt)


def test_of_what_was_written_anew_with_the_same_value_one_is_a_reader() -> None:
    shelf = Shelf()
    shelf.do(10, ("put", "a", 1))
    attempt = shelf.begin(shelf.put(30, ("get", "a")))
    writer = shelf.do(20, ("put", "a", 1))

    assert shelf.finish(attempt)
    assert attempt.entry.reads["a"][0] is writer.versions["a"]


def test_what_was_withdrawn_meanwhile_is_a_conflict() -> None:
    shelf = Shelf()
    writer = shelf.do(20, ("copy", "a", "b"))
    attempt = shelf.begin(shelf.put(30, ("get", "b"), ("get", "c")))
    shelf.do(10, ("put", "a", 1))
    assert shelf.withdrawn() == [writer]

    assert not shelf.finish(attempt)


def test_what_moved_meanwhile_is_a_conflict() -> None:
    shelf = Shelf()
    shelf.do(20, ("put", "a", 2))
    moves = shelf.do(40, ("put", "a", 4))
    attempt = shelf.begin(shelf.put(30, ("get", "a")))
    shelf.store.move(moves, (25,))

    assert not shelf.finish(attempt)


def test_who_read_what_was_settled_meanwhile_has_read_the_ground() -> None:
    shelf = Shelf()
    writer = shelf.do(10, ("put", "a", 1))
    attempt = shelf.begin(shelf.put(30, ("get", "a")))
    shelf.store.stabilise(writer)

    assert shelf.finish(attempt)
    assert attempt.entry.reads["a"] == (None, 1)
    shelf.do(20, ("put", "a", 2))
    assert shelf.withdrawn() == [attempt.entry]


def test_who_read_what_became_a_part_of_a_stretch_has_read_that() -> None:
    shelf = Shelf()
    members = shelf.do(10, ("put", "a", 1)), shelf.do(20, ("put", "b", 2))
    attempt = shelf.begin(shelf.put(30, ("get", "a"), ("get", "b")))
    stretch = shelf.merge(*members)

    assert shelf.finish(attempt)
    shelf.do(5, ("put", "a", 0), ("put", "b", 0))
    assert attempt.entry.reads["a"][0] is stretch.versions["a"]


def test_one_may_add_blindly_as_long_as_nobody_left_a_text_meanwhile() -> None:
    shelf = Shelf()
    adds, fails = (shelf.begin(shelf.put(at, ("add", "n", 1))) for at in (30, 40))
    shelf.do(10, ("put", "n", 5))
    assert shelf.finish(adds)
    shelf.do(20, ("put", "n", "text"))

    assert not shelf.finish(fails)


def test_after_many_changes_all_is_looked_at() -> None:
    shelf = Shelf()
    shelf.do(10, ("put", "a", 1))
    valid = shelf.begin(shelf.put(3000, ("get", "a"), ("get", "b")))
    conflict = shelf.begin(shelf.put(3001, ("get", "a"), ("get", "b"), ("get", "c 0")))
    for number in range(4 * RECENT_CHANGES_MIN):
        shelf.do(1000 + number, ("put", f"c {number}", 1))

    assert shelf.store._table.changed_since(valid.execution.read_set.changes) is None
    assert shelf.finish(valid)
    assert not shelf.finish(conflict)
