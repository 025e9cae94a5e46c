"""Validation of executions that overlap with installs, rollbacks, moves and stabilisation."""

from creekdb.execution.mvcc.register_table import RECENT_CHANGES_MIN
from tests.unit.execution.mvcc.store_fixture import StoreFixture


def test_a_concurrent_write_to_other_registers_is_no_conflict() -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("put", "a", 1))
    attempt = fixture.begin(fixture.add(30, ("get", "a"), ("get", "b")))
    fixture.execute(20, ("put", "c", 1))
    fixture.execute(40, ("put", "a", 2))

    assert fixture.finish(attempt)


def test_a_concurrent_first_write_to_a_read_register_is_a_conflict() -> None:
    fixture = StoreFixture()
    attempt = fixture.begin(fixture.add(30, ("get", "a"), ("get", "b")))
    fixture.execute(20, ("put", "b", 1))

    assert not fixture.finish(attempt)


def test_a_concurrent_write_of_an_equal_value_replaces_the_version_that_was_read() -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("put", "a", 1))
    attempt = fixture.begin(fixture.add(30, ("get", "a")))
    writer = fixture.execute(20, ("put", "a", 1))

    assert fixture.finish(attempt)
    assert attempt.entry.reads["a"][0] is writer.versions["a"]


def test_a_concurrent_rollback_of_a_read_version_is_a_conflict() -> None:
    fixture = StoreFixture()
    writer = fixture.execute(20, ("copy", "a", "b"))
    attempt = fixture.begin(fixture.add(30, ("get", "b"), ("get", "c")))
    fixture.execute(10, ("put", "a", 1))
    assert fixture.rolled_back() == [writer]

    assert not fixture.finish(attempt)


def test_a_concurrent_move_before_the_reader_is_a_conflict() -> None:
    fixture = StoreFixture()
    fixture.execute(20, ("put", "a", 2))
    moved = fixture.execute(40, ("put", "a", 4))
    attempt = fixture.begin(fixture.add(30, ("get", "a")))
    fixture.store.move(moved, (25,))

    assert not fixture.finish(attempt)


def test_a_version_that_became_stable_meanwhile_is_a_read_of_the_stable_value() -> None:
    fixture = StoreFixture()
    writer = fixture.execute(10, ("put", "a", 1))
    attempt = fixture.begin(fixture.add(30, ("get", "a")))
    fixture.store.stabilise(writer)

    assert fixture.finish(attempt)
    assert attempt.entry.reads["a"] == (None, 1)
    fixture.execute(20, ("put", "a", 2))
    assert fixture.rolled_back() == [attempt.entry]


def test_a_version_that_was_merged_meanwhile_is_a_read_of_the_run() -> None:
    fixture = StoreFixture()
    members = fixture.execute(10, ("put", "a", 1)), fixture.execute(20, ("put", "b", 2))
    attempt = fixture.begin(fixture.add(30, ("get", "a"), ("get", "b")))
    run = fixture.merge(*members)

    assert fixture.finish(attempt)
    fixture.execute(5, ("put", "a", 0), ("put", "b", 0))
    assert attempt.entry.reads["a"][0] is run.versions["a"]


def test_a_concurrent_write_of_a_text_invalidates_a_blind_addition() -> None:
    fixture = StoreFixture()
    valid, invalid = (fixture.begin(fixture.add(at, ("add", "n", 1))) for at in (30, 40))
    fixture.execute(10, ("put", "n", 5))
    assert fixture.finish(valid)
    fixture.execute(20, ("put", "n", "text"))

    assert not fixture.finish(invalid)


def test_after_many_changes_all_reads_are_validated() -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("put", "a", 1))
    valid = fixture.begin(fixture.add(3000, ("get", "a"), ("get", "b")))
    conflict = fixture.begin(fixture.add(3001, ("get", "a"), ("get", "b"), ("get", "c 0")))
    for number in range(4 * RECENT_CHANGES_MIN):
        fixture.execute(1000 + number, ("put", f"c {number}", 1))

    assert fixture.store.table.changed_since(valid.execution.read_set.change_count) is None
    assert fixture.finish(valid)
    assert not fixture.finish(conflict)
