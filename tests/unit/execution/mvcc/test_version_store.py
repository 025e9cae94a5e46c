from typing import Any

import pytest

from creekdb.execution.mvcc.entry import ExecutionPhase
from creekdb.protocol.values import is_same_value
from tests.unit.execution.mvcc.store_fixture import ABSENT, END, Shelf

# --- snapshots ----------------------------------------------------------------------------------


def test_a_snapshot_holds_what_was_written_before_its_place_and_nothing_else() -> None:
    shelf = Shelf()
    shelf.do(10, ("put", "a", 1))
    shelf.do(30, ("put", "a", 3))
    shelf.do(20, ("put", "a", 2))

    seen = [shelf.read("a", (at,)) for at in (5, 10, 11, 20, 25, 30, 31)]

    assert seen == [ABSENT, ABSENT, 1, 1, 2, 2, 3]


def test_a_snapshot_does_not_see_a_register_that_was_deleted_before_its_place() -> None:
    shelf = Shelf()
    shelf.do(10, ("put", "a", 1), ("put", "b", 1))
    shelf.do(20, ("delete", "a"))

    assert shelf.read("a", (15,)) == 1
    assert shelf.read("a") is ABSENT
    assert shelf.scan((15,)) == ["a", "b"]
    assert shelf.scan() == ["b"]


def test_a_snapshot_gives_the_same_value_twice() -> None:
    shelf = Shelf()
    snapshot = shelf.store.snapshot((20,))
    assert snapshot.read("a") is ABSENT
    shelf.do(10, ("put", "a", 1))

    assert snapshot.read("a") is ABSENT


def test_an_operation_that_raised_leaves_nothing_and_is_still_a_reader() -> None:
    shelf = Shelf()
    raised = shelf.do(20, ("get", "a"), ("put", "b", 1), ("raise",))
    assert shelf.answer(raised) == "ValueError: raise"
    assert shelf.read("b") is ABSENT

    shelf.do(10, ("put", "a", 1))

    assert shelf.withdrawn() == [raised]


# --- what is valid stays ------------------------------------------------------------------------


def test_a_late_write_withdraws_exactly_the_later_readers_of_its_register() -> None:
    shelf = Shelf()
    before = shelf.do(10, ("get", "a"))
    reader = shelf.do(30, ("get", "a"))
    other = shelf.do(40, ("get", "b"))
    blind = shelf.do(50, ("put", "a", 5))
    behind = shelf.do(60, ("get", "a"))

    shelf.do(20, ("put", "a", 1))

    assert shelf.withdrawn() == [reader]
    assert all(each.phase is ExecutionPhase.EXECUTED for each in (before, other, blind, behind))


def test_a_reader_whose_value_is_the_same_is_kept_and_follows_the_new_version() -> None:
    shelf = Shelf()
    shelf.do(10, ("put", "a", 1))
    reader = shelf.do(30, ("get", "a"))

    same_again = shelf.do(20, ("put", "a", 1))
    assert shelf.withdrawn() == []
    assert reader.reads["a"] == (same_again.versions["a"], 1)

    shelf.do(15, ("put", "a", 9))  # hidden from the reader by what came at 20
    assert shelf.withdrawn() == []
    shelf.do(25, ("put", "a", 2))
    assert shelf.withdrawn() == [reader]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ((1, (2,)), (1, (2.0,))),
        ({"x": 0}, {"x": False}),
        ("1", b"1"),
        (0, None),
        (None, False),
    ],
)
def test_equal_is_not_enough_to_be_the_same(before: Any, after: Any) -> None:
    shelf = Shelf()
    shelf.do(10, ("put", "a", before))
    reader = shelf.do(30, ("get", "a"))

    shelf.do(20, ("put", "a", after))

    assert shelf.withdrawn() == [reader]


@pytest.mark.parametrize("value", [0, "", b"x", True, None, 2.5, (1, ("a",)), {"a": (1, None)}])
def test_a_value_is_the_same_as_its_copy(value: Any) -> None:
    copy = {**value} if isinstance(value, dict) else value
    assert is_same_value(value, copy)
    assert not is_same_value(value, ABSENT)


def test_who_picked_an_item_is_kept_when_another_one_changes() -> None:
    shelf = Shelf()
    shelf.do(10, ("put", "row", (1, 2)))
    picked = shelf.do(30, ("pick", "row", 0))
    whole = shelf.do(40, ("get", "row"))

    shelf.do(20, ("put", "row", (1, 3)))
    assert shelf.withdrawn() == [whole]

    shelf.do(25, ("put", "row", (0, 3)))
    assert shelf.withdrawn() == [picked]


@pytest.mark.parametrize(
    "steps",
    [
        (("pick", "row", 0), ("get", "row")),
        (("get", "row"), ("pick", "row", 0)),
        (("pick", "row", 0), ("pick", "row", 1)),
        (("pick", "row", 0, 1),),
        (("pick", "row", 0), ("scan", "r", None, False, None)),
    ],
)
def test_who_looked_at_the_other_item_as_well_is_not_kept(steps: tuple[Any, ...]) -> None:
    shelf = Shelf()
    shelf.do(10, ("put", "row", (1, 2)))
    reader = shelf.do(30, *steps)

    shelf.do(20, ("put", "row", (1, 3)))
    assert shelf.withdrawn() == [reader]


def test_who_picked_is_not_kept_when_the_register_comes_or_goes() -> None:
    shelf = Shelf()
    early, late = shelf.do(20, ("pick", "row", 5)), shelf.do(40, ("pick", "row", 5))

    shelf.do(10, ("put", "row", (1,)))
    assert shelf.withdrawn() == [early, late]
    shelf.again(early, late)

    shelf.do(30, ("delete", "row"))
    assert shelf.withdrawn() == [late]


def test_an_execution_that_picked_what_has_not_changed_is_installed() -> None:
    shelf = Shelf()
    shelf.do(10, ("put", "row", {"a": 1, "b": 1}))
    attempt = shelf.begin(shelf.put(30, ("pick", "row", "a")))
    shelf.do(20, ("put", "row", {"a": 1, "b": 2}))
    assert shelf.finish(attempt)

    shelf.do(25, ("put", "row", {"a": 2, "b": 2}))
    assert shelf.withdrawn() == [attempt.entry]


def test_a_stretch_has_looked_at_what_its_members_have_looked_at() -> None:
    shelf = Shelf()
    shelf.do(10, ("put", "row", (1, 2, 3)), ("put", "other", (1, 2)))
    members = [
        shelf.do(30, ("pick", "row", 0), ("pick", "other", 0)),
        shelf.do(40, ("pick", "row", 1), ("get", "other")),
    ]
    stretch = shelf.merge(*members)

    shelf.do(20, ("put", "row", (1, 2, 4)))
    assert shelf.withdrawn() == []
    shelf.do(25, ("put", "other", (1, 3)))
    assert shelf.withdrawn() == [stretch]


def test_a_withdrawn_request_takes_its_versions_out_of_new_snapshots() -> None:
    shelf = Shelf()
    writer = shelf.do(20, ("copy", "a", "b"), ("put", "c", 1))
    shelf.do(10, ("put", "a", 1))

    assert shelf.withdrawn() == [writer]
    assert shelf.read("b") is ABSENT
    assert shelf.read("c") is ABSENT
    shelf.again(writer)
    assert (shelf.read("b"), shelf.read("c")) == (1, 1)


def test_a_withdrawal_is_followed_when_the_new_execution_writes_something_else() -> None:
    shelf = Shelf()
    shelf.do(5, ("put", "a", 0))
    first = shelf.do(20, ("copy", "a", "b"))
    second = shelf.do(30, ("copy", "b", "c"))
    third = shelf.do(40, ("get", "c"))

    shelf.do(10, ("put", "a", 1))
    assert shelf.withdrawn() == [first]
    shelf.again(first)
    assert shelf.withdrawn() == [second]
    shelf.again(second)
    assert shelf.withdrawn() == [third]
    shelf.again(third)
    assert shelf.withdrawn() == []
    assert shelf.answer(third) == (1,)


# --- hidden versions ----------------------------------------------------------------------------


def hidden_writer(shelf: Shelf) -> Any:
    """A request at 20 that wrote "b", which a request at 30 has read, is withdrawn."""
    writer = shelf.do(20, ("get", "a"), ("put", "b", 1))
    reader = shelf.do(30, ("copy", "b", "c"))
    last = shelf.do(40, ("get", "c"))
    shelf.do(10, ("put", "a", 1))
    assert shelf.withdrawn() == [writer]
    return writer, reader, last


def test_the_readers_of_a_withdrawn_request_are_kept_and_nothing_behind_it_is_sure() -> None:
    shelf = Shelf()
    _, reader, last = hidden_writer(shelf)

    assert reader.phase is last.phase is ExecutionPhase.EXECUTED
    assert shelf.store.is_valid_up_to((19,))
    assert not shelf.store.is_valid_up_to((20,))
    assert not shelf.store.is_valid_up_to((30,))
    assert not shelf.store.is_valid_up_to(END)


def test_the_readers_are_kept_for_good_when_it_writes_the_same_again() -> None:
    shelf = Shelf()
    writer, reader, last = hidden_writer(shelf)

    shelf.again(writer)

    assert shelf.withdrawn() == []
    assert reader.phase is last.phase is ExecutionPhase.EXECUTED
    assert shelf.store.is_valid_up_to(END)
    assert reader.reads["b"][0] is writer.versions["b"]


def test_a_hidden_version_is_not_in_new_snapshots() -> None:
    shelf = Shelf()
    hidden_writer(shelf)

    assert shelf.read("b", (25,)) is ABSENT
    late = shelf.do(25, ("get", "b"))
    assert shelf.answer(late) == (None,)


def test_a_request_that_nobody_has_read_is_withdrawn_without_leaving_doubt() -> None:
    shelf = Shelf()
    writer = shelf.do(20, ("get", "a"), ("put", "b", 1))

    shelf.do(10, ("put", "a", 1))

    assert shelf.withdrawn() == [writer]
    assert shelf.store.is_valid_up_to(END)


def test_a_reader_of_a_hidden_version_is_not_asked_before_its_writer_is_back() -> None:
    shelf = Shelf()
    writer, reader, _ = hidden_writer(shelf)

    shelf.do(25, ("put", "b", 2))
    assert reader.phase is ExecutionPhase.EXECUTED, "that is told later, with the rest"
    assert not shelf.store.is_valid_up_to((30,))

    shelf.again(writer)
    assert shelf.withdrawn() == [reader]


def test_a_reader_that_moves_before_the_hidden_version_is_asked_at_once() -> None:
    shelf = Shelf()
    _, reader, _ = hidden_writer(shelf)

    shelf.store.move(reader, (15,))

    assert shelf.withdrawn() == [reader]


def test_a_reader_that_moves_and_stays_behind_the_hidden_version_is_kept() -> None:
    shelf = Shelf()
    writer, reader, _ = hidden_writer(shelf)

    shelf.store.move(reader, (25,))

    assert shelf.withdrawn() == []
    shelf.again(writer)
    assert shelf.withdrawn() == []
    assert reader.phase is ExecutionPhase.EXECUTED


def test_a_withdrawn_request_that_writes_nothing_more_gives_its_readers_up() -> None:
    shelf = Shelf()
    writer = shelf.do(20, ("put_unless", "a", "b", 1))
    reader = shelf.do(30, ("get", "b"))
    shelf.do(10, ("put", "a", 1))
    assert shelf.withdrawn() == [writer]

    shelf.again(writer)

    assert shelf.withdrawn() == [reader]
    assert shelf.store.is_valid_up_to(END)


def test_doubt_moves_with_the_request_that_is_to_be_executed_again() -> None:
    shelf = Shelf()
    writer, _, _ = hidden_writer(shelf)

    shelf.store.renumber(writer, (18,))

    assert shelf.store.is_valid_up_to((17,))
    assert not shelf.store.is_valid_up_to((18,))
    shelf.again(writer)
    assert shelf.store.is_valid_up_to(END)


# --- at completion ------------------------------------------------------------------------------


def test_an_execution_that_read_what_has_changed_is_not_installed() -> None:
    shelf = Shelf()
    late = shelf.begin(shelf.put(20, ("get", "a"), ("put", "b", 1)))
    shelf.do(10, ("put", "a", 1))

    assert not shelf.finish(late)
    assert shelf.read("b") is ABSENT
    assert late.entry.phase is ExecutionPhase.WAITING


def test_an_execution_is_installed_when_what_it_read_has_changed_to_the_same() -> None:
    shelf = Shelf()
    shelf.do(5, ("put", "a", 1))
    late = shelf.begin(shelf.put(20, ("get", "a")))
    shelf.do(10, ("put", "a", 1))

    assert shelf.finish(late)
    shelf.do(7, ("put", "a", 3))
    assert shelf.withdrawn() == [], "it relies on the version at 10"
    shelf.do(15, ("put", "a", 3))
    assert shelf.withdrawn() == [late.entry]


def test_an_execution_is_judged_where_its_request_stands_at_the_end() -> None:
    shelf = Shelf()
    shelf.do(10, ("put", "a", 1))
    moving = shelf.begin(shelf.put(20, ("get", "a")))
    shelf.store.move(moving.entry, (5,))

    assert not shelf.finish(moving)
    shelf.again(moving.entry)
    assert shelf.answer(moving.entry) == (None,)


def test_an_execution_that_scanned_past_a_new_key_is_not_installed() -> None:
    shelf = Shelf()
    late = shelf.begin(shelf.put(20, ("scan", "a", "c", False, None)))
    shelf.do(10, ("put", "b", 1))
    assert not shelf.finish(late)

    behind = shelf.begin(late.entry)
    shelf.do(30, ("put", "bb", 1))  # new as well, but not before it
    assert shelf.finish(behind)
    shelf.do(15, ("put", "bb", 1))
    assert shelf.withdrawn() == [late.entry]


# --- moves --------------------------------------------------------------------------------------


def test_a_move_withdraws_the_moved_request_if_it_jumps_over_what_it_read() -> None:
    shelf = Shelf()
    shelf.do(10, ("put", "a", 1))
    reader = shelf.do(20, ("get", "a"))

    shelf.store.move(reader, (5,))

    assert shelf.withdrawn() == [reader]


def test_a_move_withdraws_whom_it_jumps_over_if_they_would_have_read_it() -> None:
    shelf = Shelf()
    reader, other = shelf.do(10, ("get", "a")), shelf.do(11, ("get", "b"))
    writer = shelf.do(20, ("put", "a", 1))
    behind = shelf.do(30, ("get", "a"))

    shelf.store.move(writer, (5,))

    assert shelf.withdrawn() == [reader]
    assert other.phase is behind.phase is writer.phase is ExecutionPhase.EXECUTED
    assert [shelf.read("a", (at,)) for at in (5, 6, 25)] == [ABSENT, 1, 1]


def test_a_move_over_another_writer_tells_the_readers_behind_both() -> None:
    shelf = Shelf()
    shelf.do(10, ("put", "a", 1))
    writer = shelf.do(20, ("put", "a", 2))
    behind = shelf.do(30, ("get", "a"))

    shelf.store.move(writer, (5,))

    assert shelf.withdrawn() == [behind]
    assert [shelf.read("a", (at,)) for at in (7, 15, 30)] == [2, 1, 1]


def test_a_move_over_distinct_data_withdraws_nothing() -> None:
    shelf = Shelf()
    shelf.do(10, ("copy", "a", "b"))
    moved = shelf.do(20, ("copy", "c", "d"))

    shelf.store.move(moved, (5,))

    assert shelf.withdrawn() == []


def test_a_reader_that_moved_is_still_found() -> None:
    shelf = Shelf()
    first, second = shelf.do(20, ("get", "a")), shelf.do(30, ("get", "a"))
    shelf.store.move(second, (10,))

    shelf.do(15, ("put", "a", 1))
    assert shelf.withdrawn() == [first]
    shelf.do(5, ("put", "a", 2))
    assert shelf.withdrawn() == [second]


def test_a_move_that_makes_additions_irregular_moves_all_its_versions_first() -> None:
    """It once looked for the second where the withdrawal of the adder had left a hole."""
    shelf = Shelf()
    adder = shelf.do(10, ("add", "a", 1), ("put", "b", 0))
    writer = shelf.do(20, ("put", "a", "text"), ("put", "b", 1))

    shelf.store.move(writer, (5,))

    assert shelf.withdrawn() == [adder]
    assert (shelf.read("a"), shelf.read("b")) == ("text", 1)


def test_renaming_keeps_everything_as_it_is() -> None:
    shelf = Shelf()
    writer, reader = shelf.do(10, ("put", "a", 1)), shelf.do(20, ("get", "a"))
    shelf.store.renumber(writer, (0,))
    shelf.store.renumber(reader, (1,))

    shelf.do(5, ("put", "a", 2))

    assert shelf.withdrawn() == []


# --- scans --------------------------------------------------------------------------------------


def test_a_new_key_in_a_scanned_range_withdraws_later_scans_only() -> None:
    shelf = Shelf()
    early = shelf.do(10, ("scan", "a", "c", False, None))
    late = shelf.do(30, ("scan", "a", "c", False, None))

    shelf.do(20, ("put", "c", 1))
    assert shelf.withdrawn() == []
    shelf.do(21, ("put", "b", 1))
    assert shelf.withdrawn() == [late]
    assert early.phase is ExecutionPhase.EXECUTED


def test_a_key_that_comes_back_is_as_new_as_any() -> None:
    shelf = Shelf()
    shelf.store.stabilise(shelf.do(1, ("put", "b", 1)))
    shelf.store.stabilise(shelf.do(2, ("delete", "b")))
    scan = shelf.do(30, ("scan", "a", "c", False, None))
    shelf.do(20, ("delete", "b"))
    assert shelf.withdrawn() == []

    shelf.do(25, ("put", "b", 1))

    assert shelf.withdrawn() == [scan]


def test_a_scan_forward_with_a_limit_has_not_read_what_is_behind_its_end() -> None:
    shelf = Shelf()
    shelf.do(1, ("put", "b", 1), ("put", "d", 1))
    scan = shelf.do(30, ("scan", "a", None, False, 1))
    assert shelf.answer(scan) == (("b",),)

    shelf.do(20, ("put", "ba", 1))
    assert shelf.withdrawn() == []
    shelf.do(21, ("put", "a", 1))
    assert shelf.withdrawn() == [scan]


def test_a_scan_backward_with_a_limit_has_not_read_what_is_before_its_end() -> None:
    shelf = Shelf()
    shelf.do(1, ("put", "b", 1), ("put", "d", 1))
    scan = shelf.do(30, ("scan", None, "e", True, 1))
    assert shelf.answer(scan) == (("d",),)

    shelf.do(20, ("put", "c", 1))
    assert shelf.withdrawn() == []
    shelf.do(21, ("put", "da", 1))
    assert shelf.withdrawn() == [scan]


def test_a_scan_that_passed_a_deleted_key_to_fill_its_limit_has_read_it() -> None:
    shelf = Shelf()
    shelf.do(1, ("put", "a", 1), ("put", "b", 1))
    shelf.do(2, ("delete", "a"))
    scan = shelf.do(30, ("scan", None, None, False, 1))
    assert shelf.answer(scan) == (("b",),)

    shelf.do(20, ("put", "a", 2))

    assert shelf.withdrawn() == [scan]


def test_a_scan_of_a_prefix_has_read_what_starts_so_and_nothing_else() -> None:
    shelf = Shelf()
    of_tuples = shelf.do(30, ("prefix", ("x", 1)))
    of_texts = shelf.do(31, ("prefix", "x"))

    shelf.do(10, ("put", ("x", 2), 1), ("put", ("x",), 1), ("put", "w", 1), ("put", 1, 1))
    assert shelf.withdrawn() == []
    shelf.do(11, ("put", ("x", 1, "more"), 1))
    assert shelf.withdrawn() == [of_tuples]
    shelf.do(12, ("put", "xx", 1))
    assert shelf.withdrawn() == [of_texts]


def test_a_scan_is_withdrawn_when_a_value_in_it_changes() -> None:
    shelf = Shelf()
    shelf.do(1, ("put", "n1", 1))
    scan = shelf.do(30, ("total", "sum"))

    shelf.do(20, ("put", "n1", 2))

    assert shelf.withdrawn() == [scan]
    shelf.again(scan)
    assert shelf.read("sum") == 2


def test_a_move_over_a_scan_is_a_phantom_as_well() -> None:
    shelf = Shelf()
    scan = shelf.do(10, ("scan", "a", "c", False, None))
    writer = shelf.do(20, ("put", "b", 1))
    assert shelf.withdrawn() == []

    shelf.store.move(writer, (5,))

    assert shelf.withdrawn() == [scan]


def test_a_withdrawn_scan_is_no_longer_told_of_new_keys() -> None:
    shelf = Shelf()
    scan = shelf.do(30, ("get", "x"), ("scan", "a", "c", False, None))
    shelf.do(10, ("put", "x", 1))
    assert shelf.withdrawn() == [scan]

    shelf.do(11, ("put", "b", 1))

    assert shelf.withdrawn() == []
    assert not shelf.store._read_index.scanned_ranges._by_prefix
