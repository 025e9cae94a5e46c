"""Blind additions in the version store: deltas that are added up when they are read."""

import pytest

from creekdb.execution.mvcc.entry import ExecutionPhase
from creekdb.execution.mvcc.version_chain import ADDABLE_MAX
from creekdb.execution.transaction import BLIND_ADD_MAX
from tests.unit.execution.mvcc.store_fixture import ABSENT, StoreFixture


def test_an_addition_is_no_read() -> None:
    fixture = StoreFixture()
    adders = [fixture.execute(at, ("add", "n", at)) for at in (20, 30)]
    assert all(not each.reads for each in adders)

    fixture.execute(10, ("put", "n", 5))
    fixture.execute(25, ("add", "n", 1))

    assert fixture.rolled_back() == []
    assert [fixture.read("n", (at,)) for at in (10, 11, 21, 26, 31)] == [ABSENT, 5, 25, 26, 56]


def test_an_operation_that_reads_its_own_sum_depends_on_the_register() -> None:
    fixture = StoreFixture()
    reader = fixture.execute(20, ("add", "n", 1), ("get", "n"))
    assert fixture.response(reader) == (1,)

    fixture.execute(10, ("add", "n", 1))

    assert fixture.rolled_back() == [reader]
    fixture.reexecute(reader)
    assert fixture.response(reader) == (2,)


def test_a_scan_of_its_own_sum_depends_on_the_register() -> None:
    fixture = StoreFixture()
    reader = fixture.execute(20, ("add", "n", 1), ("total", "sum"))

    fixture.execute(10, ("add", "n", 1))

    assert fixture.rolled_back() == [reader]


def test_a_late_addition_rolls_back_the_readers_of_its_sums() -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("add", "n", 1))
    fixture.execute(30, ("add", "n", 1))
    early, late = fixture.execute(15, ("get", "n")), fixture.execute(35, ("get", "n"))
    fixture.execute(40, ("put", "n", 0))
    after = fixture.execute(45, ("get", "n"))

    fixture.execute(20, ("add", "n", 5))

    assert fixture.rolled_back() == [late]
    assert early.phase is after.phase is ExecutionPhase.EXECUTED
    fixture.reexecute(late)
    assert fixture.response(late) == (7,)


def test_a_late_addition_rolls_back_the_readers_of_a_sum_that_has_moved() -> None:
    fixture = StoreFixture()
    fixture.execute(30, ("get", "m"))
    adder = fixture.execute(40, ("add", "n", 1))
    reader = fixture.execute(50, ("get", "n"))
    fixture.store.move(adder, (20,))  # no other version of the register lies between

    fixture.execute(10, ("add", "n", 5))

    assert fixture.rolled_back() == [reader]
    fixture.reexecute(reader)
    assert fixture.response(reader) == (6,)


def test_an_addition_of_zero_keeps_the_readers_of_the_sum() -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("add", "n", 1))
    fixture.execute(30, ("add", "n", 1))
    reader = fixture.execute(35, ("get", "n"))

    fixture.execute(20, ("add", "n", 0))

    assert fixture.rolled_back() == []
    assert reader.phase is ExecutionPhase.EXECUTED
    assert fixture.read("n") == 2


def test_an_addition_creates_the_register() -> None:
    fixture = StoreFixture()
    scan = fixture.execute(20, ("prefix", "n"))

    fixture.execute(10, ("add", "n", 0))

    assert fixture.rolled_back() == [scan]
    assert fixture.read("n") == 0


def test_an_addition_to_a_deleted_register_starts_from_zero() -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("put", "n", 5))
    fixture.execute(30, ("add", "n", 1))

    fixture.execute(20, ("delete", "n"))

    assert fixture.read("n") == 1


@pytest.mark.parametrize("value", ["text", True, None, 1.5, ADDABLE_MAX, -ADDABLE_MAX])
def test_a_value_that_is_not_addable_rolls_back_later_additions(value: object) -> None:
    fixture = StoreFixture()
    early, late = fixture.execute(10, ("add", "n", 1)), fixture.execute(30, ("add", "n", 1))

    fixture.execute(20, ("put", "n", value))

    assert fixture.rolled_back() == [late]
    assert early.phase is ExecutionPhase.EXECUTED
    fixture.reexecute(late)
    if type(value) is int:
        assert fixture.read("n") == value + 1
    else:
        kind = type(value).__name__
        assert fixture.response(late) == f"BadValue: can only add to an int, and 'n' holds a {kind}"
        assert fixture.read("n") is value


def test_an_addition_after_a_value_that_is_not_addable_reads_it() -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("put", "n", "text"))

    reader = fixture.execute(20, ("add", "n", 1))

    assert fixture.response(reader).startswith("BadValue")
    assert "n" in reader.reads


def test_a_running_addition_is_not_installed_after_such_a_value() -> None:
    fixture = StoreFixture()
    late = fixture.begin(fixture.add(20, ("add", "n", 1)))
    fixture.execute(10, ("put", "n", "text"))

    assert not fixture.finish(late)
    fixture.reexecute(late.entry)
    assert fixture.response(late.entry).startswith("BadValue")


def test_an_operation_that_added_blindly_and_raised_is_rolled_back_by_such_a_value() -> None:
    fixture = StoreFixture()
    raised = fixture.execute(20, ("add", "n", 1), ("raise",))
    assert fixture.response(raised) == "ValueError: raise"

    fixture.execute(10, ("put", "n", "text"))

    assert fixture.rolled_back() == [raised]
    fixture.reexecute(raised)
    assert fixture.response(raised).startswith("BadValue")


def test_an_operation_that_added_blindly_and_then_put_is_rolled_back_by_such_a_value() -> None:
    fixture = StoreFixture()
    adder = fixture.execute(20, ("add", "n", 1), ("put", "n", 7))

    fixture.execute(10, ("put", "n", "text"))

    assert fixture.rolled_back() == [adder]


def test_sums_that_may_become_too_large_are_read() -> None:
    fixture = StoreFixture()
    entries = [fixture.execute(at, ("add", "n", BLIND_ADD_MAX - 1)) for at in range(10, 30)]

    blind = [each for each in entries if not each.reads]
    raised = [each for each in entries if str(fixture.response(each)).startswith("BadValue")]

    assert 2 <= len(blind) <= 3
    assert raised, "the sum exceeds 64 bits"
    successful = [each for each in entries if each not in raised]
    assert fixture.read("n") == len(successful) * (BLIND_ADD_MAX - 1)


def test_a_move_of_a_value_that_is_not_addable_rolls_back_the_overtaken_additions() -> None:
    fixture = StoreFixture()
    adder = fixture.execute(10, ("add", "n", 1))
    writer = fixture.execute(20, ("put", "n", "text"))
    assert fixture.rolled_back() == []

    fixture.store.move(writer, (5,))

    assert fixture.rolled_back() == [adder]


def test_a_moved_addition_is_in_every_sum_after_its_new_position() -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("add", "n", 1))
    between = fixture.execute(15, ("get", "n"))
    moved = fixture.execute(20, ("add", "n", 5))
    after = fixture.execute(25, ("get", "n"))

    fixture.store.move(moved, (5,))

    assert fixture.rolled_back() == [between]
    assert after.phase is ExecutionPhase.EXECUTED
    assert [fixture.read("n", (at,)) for at in (6, 11, 30)] == [5, 6, 6]


def test_a_moved_value_changes_the_sums_after_its_old_position() -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("put", "n", 100))
    value = fixture.execute(20, ("put", "n", 7))
    fixture.execute(30, ("add", "n", 1))
    reader = fixture.execute(40, ("get", "n"))

    fixture.store.move(value, (5,))

    assert fixture.rolled_back() == [reader]
    fixture.reexecute(reader)
    assert fixture.response(reader) == (101,)


def test_a_rolled_back_addition_is_removed_from_every_sum() -> None:
    fixture = StoreFixture()
    adder = fixture.execute(20, ("shift", "a", "n"), ("add", "m", 1))
    fixture.execute(30, ("add", "m", 1))
    reader = fixture.execute(40, ("get", "m"))

    fixture.execute(10, ("put", "a", 1))

    assert fixture.rolled_back() == [adder, reader]
    fixture.reexecute(adder)
    fixture.reexecute(reader)
    assert fixture.response(reader) == (2,)


def test_stable_additions_are_folded_in_order() -> None:
    fixture = StoreFixture()
    entries = [
        fixture.execute(10, ("add", "n", 1)),
        fixture.execute(20, ("put", "n", 10)),
        fixture.execute(30, ("add", "n", 2)),
        fixture.execute(40, ("add", "n", 3)),
    ]
    reader = fixture.execute(50, ("get", "n"))

    states = []
    for each in entries:
        fixture.store.stabilise(each)
        states.append(dict(fixture.store.table.stable_items()))

    assert states == [{"n": 1}, {"n": 10}, {"n": 12}, {"n": 15}]
    assert reader.phase is ExecutionPhase.EXECUTED
    assert fixture.rolled_back() == []
    assert fixture.version_count() == 0


def test_additions_after_a_stable_addition_include_it() -> None:
    fixture = StoreFixture()
    first = fixture.execute(10, ("add", "n", 1))
    fixture.execute(30, ("add", "n", 2))
    reader = fixture.execute(40, ("get", "n"))
    fixture.store.stabilise(first)

    fixture.execute(20, ("add", "n", 5))

    assert fixture.rolled_back() == [reader]
    fixture.reexecute(reader)
    assert fixture.response(reader) == (8,)


def test_a_register_is_addable_again_once_an_integer_is_stable() -> None:
    fixture = StoreFixture()
    fixture.store.stabilise(fixture.execute(10, ("put", "n", "text")))
    assert fixture.execute(20, ("add", "n", 1)).reads
    fixture.store.stabilise(fixture.execute(30, ("put", "n", 1)))

    assert not fixture.execute(40, ("add", "n", 1)).reads
