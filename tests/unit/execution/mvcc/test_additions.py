"""What the version store makes of `add`: deltas that nobody has looked at."""

import pytest

from creekdb.execution.mvcc.entry import ExecutionPhase
from creekdb.execution.mvcc.version_chain import ADDABLE_MAX
from creekdb.execution.transaction import BLIND_ADD_MAX
from tests.unit.execution.mvcc.store_fixture import ABSENT, Shelf


def test_adding_is_no_read() -> None:
    shelf = Shelf()
    adders = [shelf.do(at, ("add", "n", at)) for at in (20, 30)]
    assert all(not each.reads for each in adders)

    shelf.do(10, ("put", "n", 5))
    shelf.do(25, ("add", "n", 1))

    assert shelf.withdrawn() == []
    assert [shelf.read("n", (at,)) for at in (10, 11, 21, 26, 31)] == [ABSENT, 5, 25, 26, 56]


def test_an_operation_that_looks_at_what_it_adds_to_depends_on_it() -> None:
    shelf = Shelf()
    looks = shelf.do(20, ("add", "n", 1), ("get", "n"))
    assert shelf.answer(looks) == (1,)

    shelf.do(10, ("add", "n", 1))

    assert shelf.withdrawn() == [looks]
    shelf.again(looks)
    assert shelf.answer(looks) == (2,)


def test_a_scan_over_what_was_added_depends_on_it() -> None:
    shelf = Shelf()
    looks = shelf.do(20, ("add", "n", 1), ("total", "sum"))

    shelf.do(10, ("add", "n", 1))

    assert shelf.withdrawn() == [looks]


def test_a_late_addition_withdraws_whoever_read_a_sum_that_it_is_a_part_of() -> None:
    shelf = Shelf()
    shelf.do(10, ("add", "n", 1))
    shelf.do(30, ("add", "n", 1))
    early, late = shelf.do(15, ("get", "n")), shelf.do(35, ("get", "n"))
    shelf.do(40, ("put", "n", 0))
    behind = shelf.do(45, ("get", "n"))

    shelf.do(20, ("add", "n", 5))

    assert shelf.withdrawn() == [late]
    assert early.phase is behind.phase is ExecutionPhase.EXECUTED
    shelf.again(late)
    assert shelf.answer(late) == (7,)


def test_an_addition_of_nothing_keeps_the_readers_of_the_sum() -> None:
    shelf = Shelf()
    shelf.do(10, ("add", "n", 1))
    shelf.do(30, ("add", "n", 1))
    reader = shelf.do(35, ("get", "n"))

    shelf.do(20, ("add", "n", 0))

    assert shelf.withdrawn() == []
    assert reader.phase is ExecutionPhase.EXECUTED
    assert shelf.read("n") == 2


def test_an_addition_brings_the_register_into_being() -> None:
    shelf = Shelf()
    scan = shelf.do(20, ("prefix", "n"))

    shelf.do(10, ("add", "n", 0))

    assert shelf.withdrawn() == [scan]
    assert shelf.read("n") == 0


def test_an_addition_to_a_deleted_register_starts_from_nothing() -> None:
    shelf = Shelf()
    shelf.do(10, ("put", "n", 5))
    shelf.do(30, ("add", "n", 1))

    shelf.do(20, ("delete", "n"))

    assert shelf.read("n") == 1


@pytest.mark.parametrize("value", ["text", True, None, 1.5, ADDABLE_MAX, -ADDABLE_MAX])
def test_a_value_that_cannot_be_added_to_withdraws_the_later_additions(value: object) -> None:
    shelf = Shelf()
    early, late = shelf.do(10, ("add", "n", 1)), shelf.do(30, ("add", "n", 1))

    shelf.do(20, ("put", "n", value))

    assert shelf.withdrawn() == [late]
    assert early.phase is ExecutionPhase.EXECUTED
    shelf.again(late)
    if type(value) is int:
        assert shelf.read("n") == value + 1
    else:
        kind = type(value).__name__
        assert shelf.answer(late) == f"BadValue: can only add to an int, and 'n' holds a {kind}"
        assert shelf.read("n") is value


def test_an_addition_after_what_cannot_be_added_to_looks() -> None:
    shelf = Shelf()
    shelf.do(10, ("put", "n", "text"))

    looks = shelf.do(20, ("add", "n", 1))

    assert shelf.answer(looks).startswith("BadValue")
    assert "n" in looks.reads


def test_an_addition_that_was_begun_before_such_a_value_came_is_not_installed() -> None:
    shelf = Shelf()
    late = shelf.begin(shelf.put(20, ("add", "n", 1)))
    shelf.do(10, ("put", "n", "text"))

    assert not shelf.finish(late)
    shelf.again(late.entry)
    assert shelf.answer(late.entry).startswith("BadValue")


def test_an_operation_that_added_blindly_and_raised_has_to_look_as_well() -> None:
    shelf = Shelf()
    raised = shelf.do(20, ("add", "n", 1), ("raise",))
    assert shelf.answer(raised) == "ValueError: raise"

    shelf.do(10, ("put", "n", "text"))

    assert shelf.withdrawn() == [raised]
    shelf.again(raised)
    assert shelf.answer(raised).startswith("BadValue")


def test_an_operation_that_added_blindly_and_then_put_has_to_look_as_well() -> None:
    shelf = Shelf()
    adder = shelf.do(20, ("add", "n", 1), ("put", "n", 7))

    shelf.do(10, ("put", "n", "text"))

    assert shelf.withdrawn() == [adder]


def test_sums_that_become_too_large_are_looked_at() -> None:
    shelf = Shelf()
    entries = [shelf.do(at, ("add", "n", BLIND_ADD_MAX - 1)) for at in range(10, 30)]

    blind = [each for each in entries if not each.reads]
    raised = [each for each in entries if str(shelf.answer(each)).startswith("BadValue")]

    assert 2 <= len(blind) <= 3
    assert raised, "beyond what can be sent"
    kept = [each for each in entries if each not in raised]
    assert shelf.read("n") == len(kept) * (BLIND_ADD_MAX - 1)


def test_a_move_of_what_cannot_be_added_to_withdraws_the_additions_that_it_jumps_over() -> None:
    shelf = Shelf()
    adder = shelf.do(10, ("add", "n", 1))
    writer = shelf.do(20, ("put", "n", "text"))
    assert shelf.withdrawn() == []

    shelf.store.move(writer, (5,))

    assert shelf.withdrawn() == [adder]


def test_a_moved_addition_is_in_every_sum_behind_its_new_place() -> None:
    shelf = Shelf()
    shelf.do(10, ("add", "n", 1))
    between = shelf.do(15, ("get", "n"))
    moved = shelf.do(20, ("add", "n", 5))
    behind = shelf.do(25, ("get", "n"))

    shelf.store.move(moved, (5,))

    assert shelf.withdrawn() == [between]
    assert behind.phase is ExecutionPhase.EXECUTED
    assert [shelf.read("n", (at,)) for at in (6, 11, 30)] == [5, 6, 6]


def test_a_moved_value_leaves_the_additions_behind_it_on_other_ground() -> None:
    shelf = Shelf()
    shelf.do(10, ("put", "n", 100))
    value = shelf.do(20, ("put", "n", 7))
    shelf.do(30, ("add", "n", 1))
    reader = shelf.do(40, ("get", "n"))

    shelf.store.move(value, (5,))

    assert shelf.withdrawn() == [reader]
    shelf.again(reader)
    assert shelf.answer(reader) == (101,)


def test_a_withdrawn_addition_is_taken_out_of_every_sum() -> None:
    shelf = Shelf()
    adder = shelf.do(20, ("shift", "a", "n"), ("add", "m", 1))
    shelf.do(30, ("add", "m", 1))
    reader = shelf.do(40, ("get", "m"))

    shelf.do(10, ("put", "a", 1))

    assert shelf.withdrawn() == [adder, reader]
    shelf.again(adder)
    shelf.again(reader)
    assert shelf.answer(reader) == (2,)


def test_settled_additions_are_folded_in_order() -> None:
    shelf = Shelf()
    entries = [
        shelf.do(10, ("add", "n", 1)),
        shelf.do(20, ("put", "n", 10)),
        shelf.do(30, ("add", "n", 2)),
        shelf.do(40, ("add", "n", 3)),
    ]
    reader = shelf.do(50, ("get", "n"))

    settled = []
    for each in entries:
        shelf.store.stabilise(each)
        settled.append(dict(shelf.store.stable_items()))

    assert settled == [{"n": 1}, {"n": 10}, {"n": 12}, {"n": 15}]
    assert reader.phase is ExecutionPhase.EXECUTED
    assert shelf.withdrawn() == []
    assert shelf.version_count() == 0


def test_additions_behind_a_settled_one_stand_on_it() -> None:
    shelf = Shelf()
    first = shelf.do(10, ("add", "n", 1))
    shelf.do(30, ("add", "n", 2))
    reader = shelf.do(40, ("get", "n"))
    shelf.store.stabilise(first)

    shelf.do(20, ("add", "n", 5))

    assert shelf.withdrawn() == [reader]
    shelf.again(reader)
    assert shelf.answer(reader) == (8,)


def test_once_settled_a_register_can_be_added_to_again() -> None:
    shelf = Shelf()
    shelf.store.stabilise(shelf.do(10, ("put", "n", "text")))
    assert shelf.do(20, ("add", "n", 1)).reads
    shelf.store.stabilise(shelf.do(30, ("put", "n", 1)))

    assert not shelf.do(40, ("add", "n", 1)).reads
