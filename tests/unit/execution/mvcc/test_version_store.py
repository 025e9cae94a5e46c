from typing import Any

import pytest

from creekdb.execution.mvcc.entry import ExecutionPhase
from creekdb.protocol.values import is_same_value
from tests.unit.execution.mvcc.store_fixture import ABSENT, END, StoreFixture

# --- snapshots ----------------------------------------------------------------------------------


def test_a_snapshot_holds_exactly_the_writes_before_its_position() -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("put", "a", 1))
    fixture.execute(30, ("put", "a", 3))
    fixture.execute(20, ("put", "a", 2))

    values = [fixture.read("a", (at,)) for at in (5, 10, 11, 20, 25, 30, 31)]

    assert values == [ABSENT, ABSENT, 1, 1, 2, 2, 3]


def test_a_snapshot_excludes_registers_deleted_before_its_position() -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("put", "a", 1), ("put", "b", 1))
    fixture.execute(20, ("delete", "a"))

    assert fixture.read("a", (15,)) == 1
    assert fixture.read("a") is ABSENT
    assert fixture.scan((15,)) == ["a", "b"]
    assert fixture.scan() == ["b"]


def test_a_snapshot_returns_the_same_value_twice() -> None:
    fixture = StoreFixture()
    snapshot = fixture.store.snapshot((20,))
    assert snapshot.read("a") is ABSENT
    fixture.execute(10, ("put", "a", 1))

    assert snapshot.read("a") is ABSENT


def test_an_operation_that_raised_writes_nothing_and_remains_a_reader() -> None:
    fixture = StoreFixture()
    raised = fixture.execute(20, ("get", "a"), ("put", "b", 1), ("raise",))
    assert fixture.response(raised) == "ValueError: raise"
    assert fixture.read("b") is ABSENT

    fixture.execute(10, ("put", "a", 1))

    assert fixture.rolled_back() == [raised]


# --- validity -----------------------------------------------------------------------------------


def test_a_late_write_rolls_back_exactly_the_later_readers_of_its_register() -> None:
    fixture = StoreFixture()
    before = fixture.execute(10, ("get", "a"))
    reader = fixture.execute(30, ("get", "a"))
    other = fixture.execute(40, ("get", "b"))
    blind = fixture.execute(50, ("put", "a", 5))
    after = fixture.execute(60, ("get", "a"))

    fixture.execute(20, ("put", "a", 1))

    assert fixture.rolled_back() == [reader]
    assert all(each.phase is ExecutionPhase.EXECUTED for each in (before, other, blind, after))


def test_a_reader_of_an_equal_value_stays_valid_and_reads_the_new_version() -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("put", "a", 1))
    reader = fixture.execute(30, ("get", "a"))

    equal = fixture.execute(20, ("put", "a", 1))
    assert fixture.rolled_back() == []
    assert reader.reads["a"] == (equal.versions["a"], 1)

    fixture.execute(15, ("put", "a", 9))  # the version at 20 hides it from the reader
    assert fixture.rolled_back() == []
    fixture.execute(25, ("put", "a", 2))
    assert fixture.rolled_back() == [reader]


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
def test_equal_values_of_different_types_are_not_the_same(before: Any, after: Any) -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("put", "a", before))
    reader = fixture.execute(30, ("get", "a"))

    fixture.execute(20, ("put", "a", after))

    assert fixture.rolled_back() == [reader]


@pytest.mark.parametrize("value", [0, "", b"x", True, None, 2.5, (1, ("a",)), {"a": (1, None)}])
def test_a_value_is_the_same_as_its_copy(value: Any) -> None:
    copy = {**value} if isinstance(value, dict) else value
    assert is_same_value(value, copy)
    assert not is_same_value(value, ABSENT)


def test_a_reader_of_one_item_stays_valid_when_another_item_changes() -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("put", "row", (1, 2)))
    picked = fixture.execute(30, ("pick", "row", 0))
    whole = fixture.execute(40, ("get", "row"))

    fixture.execute(20, ("put", "row", (1, 3)))
    assert fixture.rolled_back() == [whole]

    fixture.execute(25, ("put", "row", (0, 3)))
    assert fixture.rolled_back() == [picked]


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
def test_a_reader_of_the_changed_item_is_rolled_back(steps: tuple[Any, ...]) -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("put", "row", (1, 2)))
    reader = fixture.execute(30, *steps)

    fixture.execute(20, ("put", "row", (1, 3)))
    assert fixture.rolled_back() == [reader]


def test_a_partial_read_is_rolled_back_when_the_register_appears_or_disappears() -> None:
    fixture = StoreFixture()
    early, late = fixture.execute(20, ("pick", "row", 5)), fixture.execute(40, ("pick", "row", 5))

    fixture.execute(10, ("put", "row", (1,)))
    assert fixture.rolled_back() == [early, late]
    fixture.reexecute(early, late)

    fixture.execute(30, ("delete", "row"))
    assert fixture.rolled_back() == [late]


def test_an_execution_whose_picked_items_have_not_changed_is_installed() -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("put", "row", {"a": 1, "b": 1}))
    attempt = fixture.begin(fixture.add(30, ("pick", "row", "a")))
    fixture.execute(20, ("put", "row", {"a": 1, "b": 2}))
    assert fixture.finish(attempt)

    fixture.execute(25, ("put", "row", {"a": 2, "b": 2}))
    assert fixture.rolled_back() == [attempt.entry]


def test_a_merged_run_has_read_the_items_that_its_members_read() -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("put", "row", (1, 2, 3)), ("put", "other", (1, 2)))
    members = [
        fixture.execute(30, ("pick", "row", 0), ("pick", "other", 0)),
        fixture.execute(40, ("pick", "row", 1), ("get", "other")),
    ]
    run = fixture.merge(*members)

    fixture.execute(20, ("put", "row", (1, 2, 4)))
    assert fixture.rolled_back() == []
    fixture.execute(25, ("put", "other", (1, 3)))
    assert fixture.rolled_back() == [run]


def test_new_snapshots_exclude_the_versions_of_a_rolled_back_request() -> None:
    fixture = StoreFixture()
    writer = fixture.execute(20, ("copy", "a", "b"), ("put", "c", 1))
    fixture.execute(10, ("put", "a", 1))

    assert fixture.rolled_back() == [writer]
    assert fixture.read("b") is ABSENT
    assert fixture.read("c") is ABSENT
    fixture.reexecute(writer)
    assert (fixture.read("b"), fixture.read("c")) == (1, 1)


def test_a_re_execution_with_other_writes_rolls_back_its_readers() -> None:
    fixture = StoreFixture()
    fixture.execute(5, ("put", "a", 0))
    first = fixture.execute(20, ("copy", "a", "b"))
    second = fixture.execute(30, ("copy", "b", "c"))
    third = fixture.execute(40, ("get", "c"))

    fixture.execute(10, ("put", "a", 1))
    assert fixture.rolled_back() == [first]
    fixture.reexecute(first)
    assert fixture.rolled_back() == [second]
    fixture.reexecute(second)
    assert fixture.rolled_back() == [third]
    fixture.reexecute(third)
    assert fixture.rolled_back() == []
    assert fixture.response(third) == (1,)


# --- hidden versions ----------------------------------------------------------------------------


def hidden_writer(fixture: StoreFixture) -> Any:
    """Roll back a request at 20 whose write to "b" a request at 30 has read."""
    writer = fixture.execute(20, ("get", "a"), ("put", "b", 1))
    reader = fixture.execute(30, ("copy", "b", "c"))
    last = fixture.execute(40, ("get", "c"))
    fixture.execute(10, ("put", "a", 1))
    assert fixture.rolled_back() == [writer]
    return writer, reader, last


def test_readers_of_a_rolled_back_request_stay_executed_but_are_not_valid() -> None:
    fixture = StoreFixture()
    _, reader, last = hidden_writer(fixture)

    assert reader.phase is last.phase is ExecutionPhase.EXECUTED
    assert fixture.store.is_valid_up_to((19,))
    assert not fixture.store.is_valid_up_to((20,))
    assert not fixture.store.is_valid_up_to((30,))
    assert not fixture.store.is_valid_up_to(END)


def test_readers_stay_valid_when_the_re_execution_writes_the_same() -> None:
    fixture = StoreFixture()
    writer, reader, last = hidden_writer(fixture)

    fixture.reexecute(writer)

    assert fixture.rolled_back() == []
    assert reader.phase is last.phase is ExecutionPhase.EXECUTED
    assert fixture.store.is_valid_up_to(END)
    assert reader.reads["b"][0] is writer.versions["b"]


def test_new_snapshots_exclude_hidden_versions() -> None:
    fixture = StoreFixture()
    hidden_writer(fixture)

    assert fixture.read("b", (25,)) is ABSENT
    late = fixture.execute(25, ("get", "b"))
    assert fixture.response(late) == (None,)


def test_a_rollback_of_a_request_without_readers_leaves_no_pending_rollback() -> None:
    fixture = StoreFixture()
    writer = fixture.execute(20, ("get", "a"), ("put", "b", 1))

    fixture.execute(10, ("put", "a", 1))

    assert fixture.rolled_back() == [writer]
    assert fixture.store.is_valid_up_to(END)


def test_a_reader_of_a_hidden_version_is_validated_after_its_writer_was_re_executed() -> None:
    fixture = StoreFixture()
    writer, reader, _ = hidden_writer(fixture)

    fixture.execute(25, ("put", "b", 2))
    assert reader.phase is ExecutionPhase.EXECUTED, "it is validated later, with the other readers"
    assert not fixture.store.is_valid_up_to((30,))

    fixture.reexecute(writer)
    assert fixture.rolled_back() == [reader]


def test_a_reader_that_moves_before_the_hidden_version_is_validated_at_once() -> None:
    fixture = StoreFixture()
    _, reader, _ = hidden_writer(fixture)

    fixture.store.move(reader, (15,))

    assert fixture.rolled_back() == [reader]


def test_a_reader_that_moves_but_stays_after_the_hidden_version_stays_valid() -> None:
    fixture = StoreFixture()
    writer, reader, _ = hidden_writer(fixture)

    fixture.store.move(reader, (25,))

    assert fixture.rolled_back() == []
    fixture.reexecute(writer)
    assert fixture.rolled_back() == []
    assert reader.phase is ExecutionPhase.EXECUTED


def test_a_re_execution_that_does_not_write_again_rolls_back_its_readers() -> None:
    fixture = StoreFixture()
    writer = fixture.execute(20, ("put_unless", "a", "b", 1))
    reader = fixture.execute(30, ("get", "b"))
    fixture.execute(10, ("put", "a", 1))
    assert fixture.rolled_back() == [writer]

    fixture.reexecute(writer)

    assert fixture.rolled_back() == [reader]
    assert fixture.store.is_valid_up_to(END)


def test_a_pending_rollback_moves_with_its_request() -> None:
    fixture = StoreFixture()
    writer, _, _ = hidden_writer(fixture)

    fixture.store.renumber(writer, (18,))

    assert fixture.store.is_valid_up_to((17,))
    assert not fixture.store.is_valid_up_to((18,))
    fixture.reexecute(writer)
    assert fixture.store.is_valid_up_to(END)


# --- installation -------------------------------------------------------------------------------


def test_an_execution_whose_reads_have_changed_is_not_installed() -> None:
    fixture = StoreFixture()
    late = fixture.begin(fixture.add(20, ("get", "a"), ("put", "b", 1)))
    fixture.execute(10, ("put", "a", 1))

    assert not fixture.finish(late)
    assert fixture.read("b") is ABSENT
    assert late.entry.phase is ExecutionPhase.WAITING


def test_an_execution_whose_reads_changed_to_equal_values_is_installed() -> None:
    fixture = StoreFixture()
    fixture.execute(5, ("put", "a", 1))
    late = fixture.begin(fixture.add(20, ("get", "a")))
    fixture.execute(10, ("put", "a", 1))

    assert fixture.finish(late)
    fixture.execute(7, ("put", "a", 3))
    assert fixture.rolled_back() == [], "it reads the version at 10"
    fixture.execute(15, ("put", "a", 3))
    assert fixture.rolled_back() == [late.entry]


def test_an_execution_is_validated_at_the_final_position_of_its_request() -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("put", "a", 1))
    moving = fixture.begin(fixture.add(20, ("get", "a")))
    fixture.store.move(moving.entry, (5,))

    assert not fixture.finish(moving)
    fixture.reexecute(moving.entry)
    assert fixture.response(moving.entry) == (None,)


def test_an_execution_that_scanned_past_a_new_key_is_not_installed() -> None:
    fixture = StoreFixture()
    late = fixture.begin(fixture.add(20, ("scan", "a", "c", False, None)))
    fixture.execute(10, ("put", "b", 1))
    assert not fixture.finish(late)

    second_attempt = fixture.begin(late.entry)
    fixture.execute(30, ("put", "bb", 1))  # also new, but after the scan
    assert fixture.finish(second_attempt)
    fixture.execute(15, ("put", "bb", 1))
    assert fixture.rolled_back() == [late.entry]


# --- moves --------------------------------------------------------------------------------------


def test_a_move_before_its_own_reads_rolls_back_the_moved_request() -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("put", "a", 1))
    reader = fixture.execute(20, ("get", "a"))

    fixture.store.move(reader, (5,))

    assert fixture.rolled_back() == [reader]


def test_a_move_rolls_back_the_overtaken_readers_of_its_writes() -> None:
    fixture = StoreFixture()
    reader, other = fixture.execute(10, ("get", "a")), fixture.execute(11, ("get", "b"))
    writer = fixture.execute(20, ("put", "a", 1))
    after = fixture.execute(30, ("get", "a"))

    fixture.store.move(writer, (5,))

    assert fixture.rolled_back() == [reader]
    assert other.phase is after.phase is writer.phase is ExecutionPhase.EXECUTED
    assert [fixture.read("a", (at,)) for at in (5, 6, 25)] == [ABSENT, 1, 1]


def test_a_move_before_another_writer_rolls_back_the_readers_after_both() -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("put", "a", 1))
    writer = fixture.execute(20, ("put", "a", 2))
    after = fixture.execute(30, ("get", "a"))

    fixture.store.move(writer, (5,))

    assert fixture.rolled_back() == [after]
    assert [fixture.read("a", (at,)) for at in (7, 15, 30)] == [2, 1, 1]


def test_a_move_on_disjoint_data_rolls_back_nothing() -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("copy", "a", "b"))
    moved = fixture.execute(20, ("copy", "c", "d"))

    fixture.store.move(moved, (5,))

    assert fixture.rolled_back() == []


def test_a_moved_reader_is_still_found() -> None:
    fixture = StoreFixture()
    first, second = fixture.execute(20, ("get", "a")), fixture.execute(30, ("get", "a"))
    fixture.store.move(second, (10,))

    fixture.execute(15, ("put", "a", 1))
    assert fixture.rolled_back() == [first]
    fixture.execute(5, ("put", "a", 2))
    assert fixture.rolled_back() == [second]


def test_a_move_moves_all_its_versions_before_it_rolls_back_blind_adders() -> None:
    """Regression: the rollback of the adder shifted the chain of the second version."""
    fixture = StoreFixture()
    adder = fixture.execute(10, ("add", "a", 1), ("put", "b", 0))
    writer = fixture.execute(20, ("put", "a", "text"), ("put", "b", 1))

    fixture.store.move(writer, (5,))

    assert fixture.rolled_back() == [adder]
    assert (fixture.read("a"), fixture.read("b")) == ("text", 1)


def test_renumbering_changes_nothing_else() -> None:
    fixture = StoreFixture()
    writer, reader = fixture.execute(10, ("put", "a", 1)), fixture.execute(20, ("get", "a"))
    fixture.store.renumber(writer, (0,))
    fixture.store.renumber(reader, (1,))

    fixture.execute(5, ("put", "a", 2))

    assert fixture.rolled_back() == []


# --- scans --------------------------------------------------------------------------------------


def test_a_new_key_in_a_scanned_range_rolls_back_later_scans_only() -> None:
    fixture = StoreFixture()
    early = fixture.execute(10, ("scan", "a", "c", False, None))
    late = fixture.execute(30, ("scan", "a", "c", False, None))

    fixture.execute(20, ("put", "c", 1))
    assert fixture.rolled_back() == []
    fixture.execute(21, ("put", "b", 1))
    assert fixture.rolled_back() == [late]
    assert early.phase is ExecutionPhase.EXECUTED


def test_a_key_that_is_added_again_counts_as_new() -> None:
    fixture = StoreFixture()
    fixture.store.stabilise(fixture.execute(1, ("put", "b", 1)))
    fixture.store.stabilise(fixture.execute(2, ("delete", "b")))
    scan = fixture.execute(30, ("scan", "a", "c", False, None))
    fixture.execute(20, ("delete", "b"))
    assert fixture.rolled_back() == []

    fixture.execute(25, ("put", "b", 1))

    assert fixture.rolled_back() == [scan]


def test_a_limited_forward_scan_has_not_read_the_keys_after_its_end() -> None:
    fixture = StoreFixture()
    fixture.execute(1, ("put", "b", 1), ("put", "d", 1))
    scan = fixture.execute(30, ("scan", "a", None, False, 1))
    assert fixture.response(scan) == (("b",),)

    fixture.execute(20, ("put", "ba", 1))
    assert fixture.rolled_back() == []
    fixture.execute(21, ("put", "a", 1))
    assert fixture.rolled_back() == [scan]


def test_a_limited_reverse_scan_has_not_read_the_keys_before_its_end() -> None:
    fixture = StoreFixture()
    fixture.execute(1, ("put", "b", 1), ("put", "d", 1))
    scan = fixture.execute(30, ("scan", None, "e", True, 1))
    assert fixture.response(scan) == (("d",),)

    fixture.execute(20, ("put", "c", 1))
    assert fixture.rolled_back() == []
    fixture.execute(21, ("put", "da", 1))
    assert fixture.rolled_back() == [scan]


def test_a_limited_scan_has_read_the_deleted_keys_that_it_passed() -> None:
    fixture = StoreFixture()
    fixture.execute(1, ("put", "a", 1), ("put", "b", 1))
    fixture.execute(2, ("delete", "a"))
    scan = fixture.execute(30, ("scan", None, None, False, 1))
    assert fixture.response(scan) == (("b",),)

    fixture.execute(20, ("put", "a", 2))

    assert fixture.rolled_back() == [scan]


def test_a_prefix_scan_has_read_exactly_the_keys_with_the_prefix() -> None:
    fixture = StoreFixture()
    tuple_scan = fixture.execute(30, ("prefix", ("x", 1)))
    string_scan = fixture.execute(31, ("prefix", "x"))

    fixture.execute(10, ("put", ("x", 2), 1), ("put", ("x",), 1), ("put", "w", 1), ("put", 1, 1))
    assert fixture.rolled_back() == []
    fixture.execute(11, ("put", ("x", 1, "more"), 1))
    assert fixture.rolled_back() == [tuple_scan]
    fixture.execute(12, ("put", "xx", 1))
    assert fixture.rolled_back() == [string_scan]


def test_a_change_of_a_scanned_value_rolls_back_the_scan() -> None:
    fixture = StoreFixture()
    fixture.execute(1, ("put", "n1", 1))
    scan = fixture.execute(30, ("total", "sum"))

    fixture.execute(20, ("put", "n1", 2))

    assert fixture.rolled_back() == [scan]
    fixture.reexecute(scan)
    assert fixture.read("sum") == 2


def test_a_move_before_a_scan_is_a_phantom() -> None:
    fixture = StoreFixture()
    scan = fixture.execute(10, ("scan", "a", "c", False, None))
    writer = fixture.execute(20, ("put", "b", 1))
    assert fixture.rolled_back() == []

    fixture.store.move(writer, (5,))

    assert fixture.rolled_back() == [scan]


def test_a_rolled_back_scan_is_removed_from_the_range_index() -> None:
    fixture = StoreFixture()
    scan = fixture.execute(30, ("get", "x"), ("scan", "a", "c", False, None))
    fixture.execute(10, ("put", "x", 1))
    assert fixture.rolled_back() == [scan]

    fixture.execute(11, ("put", "b", 1))

    assert fixture.rolled_back() == []
    assert not fixture.store._read_index.scanned_ranges._by_prefix
