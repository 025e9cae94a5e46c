"""Merged runs: many requests as one entry of the version store."""

from creekdb.execution.mvcc.entry import ExecutionPhase
from tests.unit.execution.mvcc.store_fixture import ABSENT, END, StoreFixture


def test_a_run_replaces_its_members_and_keeps_one_version_per_register() -> None:
    fixture = StoreFixture()
    members = [fixture.execute(at, ("get", "a"), ("put", "b", at)) for at in (10, 20, 30)]
    assert fixture.version_count() == 3

    run = fixture.merge(*members)

    assert fixture.version_count() == 1
    assert all(each.phase is ExecutionPhase.MERGED and each.merged_run is run for each in members)
    assert all(not each.reads and not each.versions for each in members)
    assert set(run.reads) == {"a"}
    assert fixture.read("b") == 30


def test_a_run_holds_the_reads_of_its_members_from_before_it() -> None:
    fixture = StoreFixture()
    run = fixture.merge(fixture.execute(10, ("put", "b", 1)), fixture.execute(20, ("get", "a")))

    fixture.execute(5, ("put", "b", 7))
    assert fixture.rolled_back() == []
    fixture.execute(6, ("put", "a", 1))
    assert fixture.rolled_back() == [run]


def test_a_run_drops_the_reads_of_its_members_from_each_other() -> None:
    fixture = StoreFixture()
    run = fixture.merge(
        fixture.execute(10, ("put", "a", 1)), fixture.execute(20, ("copy", "a", "b"))
    )
    assert not run.reads

    fixture.execute(5, ("put", "a", 7))

    assert fixture.rolled_back() == []
    assert fixture.read("b") == 1


def test_a_register_read_before_and_after_a_write_in_the_run_is_a_read_from_before_it() -> None:
    fixture = StoreFixture()
    run = fixture.merge(
        fixture.execute(10, ("get", "a")),
        fixture.execute(20, ("put", "a", 1)),
        fixture.execute(30, ("get", "a")),
    )

    fixture.execute(5, ("put", "a", 1))

    assert fixture.rolled_back() == [run]


def test_a_late_write_of_an_equal_value_keeps_the_run() -> None:
    fixture = StoreFixture()
    fixture.execute(1, ("put", "a", 1))
    fixture.merge(fixture.execute(10, ("get", "a")), fixture.execute(20, ("put", "b", 1)))

    fixture.execute(5, ("put", "a", 1))

    assert fixture.rolled_back() == []


def test_a_reader_of_a_version_of_a_run_is_found() -> None:
    fixture = StoreFixture()
    members = fixture.execute(10, ("put", "a", 1)), fixture.execute(20, ("put", "b", 1))
    reader = fixture.execute(40, ("get", "a"))
    fixture.merge(*members)

    fixture.execute(30, ("put", "a", 2))

    assert fixture.rolled_back() == [reader]


# --- additions ----------------------------------------------------------------------------------


def test_the_additions_of_a_run_are_one_addition() -> None:
    fixture = StoreFixture()
    fixture.merge(*(fixture.execute(at, ("add", "n", at)) for at in (10, 20, 30)))
    reader = fixture.execute(40, ("get", "n"))
    assert fixture.response(reader) == (60,)

    fixture.execute(5, ("put", "n", 100))

    assert fixture.rolled_back() == [reader]
    assert fixture.read("n") == 160


def test_additions_to_a_value_of_the_same_run_are_a_value() -> None:
    fixture = StoreFixture()
    fixture.merge(
        fixture.execute(10, ("add", "n", 1)),
        fixture.execute(20, ("put", "n", 7)),
        fixture.execute(30, ("add", "n", 1)),
    )
    assert fixture.read("n") == 8

    fixture.execute(5, ("put", "n", 100))

    assert fixture.rolled_back() == []
    assert fixture.read("n") == 8


def test_a_sum_that_a_member_read_depends_on_values_before_the_run() -> None:
    fixture = StoreFixture()
    run = fixture.merge(
        fixture.execute(10, ("add", "n", 1)), fixture.execute(20, ("copy", "n", "sum"))
    )

    fixture.execute(5, ("add", "n", 100))

    assert fixture.rolled_back() == [run]


def test_a_value_that_is_not_addable_rolls_back_a_run_that_added_blindly() -> None:
    fixture = StoreFixture()
    run = fixture.merge(fixture.execute(10, ("add", "n", 1)), fixture.execute(20, ("put", "b", 1)))

    fixture.execute(5, ("put", "n", "text"))

    assert fixture.rolled_back() == [run]


def test_a_run_holds_the_additions_of_operations_that_raised() -> None:
    fixture = StoreFixture()
    run = fixture.merge(
        fixture.execute(10, ("add", "n", 1), ("raise",)), fixture.execute(20, ("put", "b", 1))
    )

    fixture.execute(5, ("put", "n", "text"))

    assert fixture.rolled_back() == [run]


# --- scans --------------------------------------------------------------------------------------


def test_the_ranges_of_a_run_are_united_and_still_detect_phantoms() -> None:
    fixture = StoreFixture()
    run = fixture.merge(
        fixture.execute(10, ("scan", "a", "d", False, None)),
        fixture.execute(20, ("scan", "c", "f", False, None)),
    )
    assert len(run.scanned_ranges) == 1

    fixture.execute(5, ("put", "g", 1))
    assert fixture.rolled_back() == []
    fixture.execute(6, ("put", "e", 1))
    assert fixture.rolled_back() == [run]


# --- late requests inside a run -----------------------------------------------------------------


def test_a_late_request_inside_a_run_on_disjoint_data_keeps_the_run() -> None:
    fixture = StoreFixture()
    run = fixture.merge(fixture.execute(10, ("put", "a", 1)), fixture.execute(30, ("put", "b", 1)))

    late = fixture.execute(20, ("copy", "c", "d"))

    assert fixture.rolled_back() == []
    assert late.phase is run.phase is ExecutionPhase.EXECUTED


def test_a_late_request_inside_a_run_that_accesses_its_writes_splits_it() -> None:
    for steps in (("get", "a"), ("put", "a", 7), ("prefix", "a")):
        fixture = StoreFixture()
        members = fixture.execute(10, ("put", "a", 1)), fixture.execute(30, ("put", "a", 2))
        run = fixture.merge(*members)

        late = fixture.begin(fixture.add(20, steps))

        assert not fixture.finish(late)
        assert fixture.rolled_back() == [run]
        fixture.release(run)
        fixture.reexecute(*members, late.entry)
        assert fixture.rolled_back() == []
        assert fixture.read("a", (25,)) == (7 if steps[0] == "put" else 1)
        assert fixture.read("a") == 2


def test_a_late_request_inside_a_run_that_writes_its_reads_splits_it() -> None:
    fixture = StoreFixture()
    run = fixture.merge(
        fixture.execute(10, ("put", "a", 1)), fixture.execute(30, ("copy", "b", "c"))
    )

    fixture.execute(20, ("put", "b", 7))

    assert fixture.rolled_back() == [run]


def test_a_late_write_inside_a_run_does_not_shield_the_members_before_it() -> None:
    """A member at 20 reads "a". A late write at 30 is equal, but another at 15 is not."""
    fixture = StoreFixture()
    fixture.execute(1, ("put", "a", 0))
    run = fixture.merge(
        fixture.execute(10, ("put", "x", 1)),
        fixture.execute(20, ("copy", "a", "y")),
        fixture.execute(40, ("put", "z", 1)),
    )

    fixture.execute(30, ("put", "a", 0))
    fixture.execute(15, ("put", "a", 7))

    assert fixture.rolled_back() == [run]


def test_a_late_deletion_inside_a_run_does_not_shield_the_scans_before_it() -> None:
    fixture = StoreFixture()
    run = fixture.merge(
        fixture.execute(10, ("put", "x", 1)),
        fixture.execute(20, ("scan", "a", "c", False, None)),
        fixture.execute(40, ("put", "z", 1)),
    )

    fixture.execute(30, ("delete", "b"))
    fixture.execute(15, ("put", "b", 7))

    assert fixture.rolled_back() == [run]


# --- splits -------------------------------------------------------------------------------------


def test_requests_after_a_split_run_are_not_valid_until_it_is_replaced() -> None:
    fixture = StoreFixture()
    members = fixture.execute(10, ("put", "a", 1)), fixture.execute(20, ("put", "b", 1))
    run = fixture.merge(*members)
    reader = fixture.execute(30, ("get", "a"))

    fixture.split(run)
    assert fixture.read("a") is ABSENT
    assert not fixture.store.is_valid_up_to((30,))
    assert reader.phase is ExecutionPhase.EXECUTED
    fixture.reexecute(*members)
    assert not fixture.store.is_valid_up_to((30,))
    fixture.store.finish_split(run)

    assert fixture.store.is_valid_up_to(END)
    assert fixture.rolled_back() == []
    assert reader.reads["a"][0] is members[0].versions["a"]


def test_a_reader_is_rolled_back_when_the_members_write_another_value() -> None:
    fixture = StoreFixture()
    members = fixture.execute(10, ("copy", "x", "a")), fixture.execute(20, ("put", "b", 1))
    run = fixture.merge(*members)
    a_reader, b_reader = fixture.execute(30, ("get", "a")), fixture.execute(31, ("get", "b"))

    fixture.execute(5, ("put", "x", 7))
    assert fixture.rolled_back() == [run]
    fixture.release(run)
    fixture.reexecute(*members)
    fixture.store.finish_split(run)

    assert fixture.rolled_back() == [a_reader]
    assert b_reader.phase is ExecutionPhase.EXECUTED


def test_a_second_split_does_nothing() -> None:
    fixture = StoreFixture()
    run = fixture.merge(fixture.execute(10, ("put", "a", 1)), fixture.execute(20, ("put", "b", 1)))
    fixture.split(run)

    fixture.store.split(run)

    assert fixture.rolled_back() == []


def test_the_members_of_a_split_run_can_be_merged_again() -> None:
    fixture = StoreFixture()
    members = fixture.execute(10, ("add", "n", 1)), fixture.execute(20, ("add", "n", 1))
    fixture.split(fixture.merge(*members))
    fixture.reexecute(*members)

    fixture.merge(*members)

    assert fixture.read("n") == 2


# --- stabilisation ------------------------------------------------------------------------------


def test_a_run_becomes_stable_like_one_request() -> None:
    fixture = StoreFixture()
    run = fixture.merge(
        fixture.execute(10, ("put", "a", 1), ("get", "gone")),
        fixture.execute(20, ("add", "n", 1), ("delete", "b")),
        fixture.execute(30, ("add", "n", 1), ("scan", "x", "y", False, None)),
    )

    fixture.store.stabilise(run)

    assert dict(fixture.store.table.stable_items()) == {"a": 1, "n": 2}
    assert fixture.version_count() == fixture.chain_count() == 0
    assert not fixture.store.merged_runs.intact_runs
    assert not fixture.store._read_index.scanned_ranges._by_prefix
