"""Many requests as one entry of the version store."""

from creekdb.execution.mvcc.entry import ExecutionPhase
from tests.unit.execution.mvcc.store_fixture import ABSENT, END, Shelf


def test_a_stretch_stands_for_its_members_and_keeps_one_version_per_register() -> None:
    shelf = Shelf()
    members = [shelf.do(at, ("get", "a"), ("put", "b", at)) for at in (10, 20, 30)]
    assert shelf.version_count() == 3

    stretch = shelf.merge(*members)

    assert shelf.version_count() == 1
    assert all(
        each.phase is ExecutionPhase.MERGED and each.merged_run is stretch for each in members
    )
    assert all(not each.reads and not each.versions for each in members)
    assert set(stretch.reads) == {"a"}
    assert shelf.read("b") == 30


def test_what_members_read_from_before_is_what_the_stretch_reads() -> None:
    shelf = Shelf()
    stretch = shelf.merge(shelf.do(10, ("put", "b", 1)), shelf.do(20, ("get", "a")))

    shelf.do(5, ("put", "b", 7))
    assert shelf.withdrawn() == []
    shelf.do(6, ("put", "a", 1))
    assert shelf.withdrawn() == [stretch]


def test_what_members_read_from_each_other_concerns_nobody_else() -> None:
    shelf = Shelf()
    stretch = shelf.merge(shelf.do(10, ("put", "a", 1)), shelf.do(20, ("copy", "a", "b")))
    assert not stretch.reads

    shelf.do(5, ("put", "a", 7))

    assert shelf.withdrawn() == []
    assert shelf.read("b") == 1


def test_what_members_read_both_before_and_after_writing_it_is_read_from_before() -> None:
    shelf = Shelf()
    stretch = shelf.merge(
        shelf.do(10, ("get", "a")), shelf.do(20, ("put", "a", 1)), shelf.do(30, ("get", "a"))
    )

    shelf.do(5, ("put", "a", 1))

    assert shelf.withdrawn() == [stretch]


def test_a_late_request_that_writes_the_same_as_before_keeps_the_stretch() -> None:
    shelf = Shelf()
    shelf.do(1, ("put", "a", 1))
    shelf.merge(shelf.do(10, ("get", "a")), shelf.do(20, ("put", "b", 1)))

    shelf.do(5, ("put", "a", 1))

    assert shelf.withdrawn() == []


def test_a_reader_of_what_a_stretch_left_behind_is_found() -> None:
    shelf = Shelf()
    members = shelf.do(10, ("put", "a", 1)), shelf.do(20, ("put", "b", 1))
    reader = shelf.do(40, ("get", "a"))
    shelf.merge(*members)

    shelf.do(30, ("put", "a", 2))

    assert shelf.withdrawn() == [reader]


# --- additions ----------------------------------------------------------------------------------


def test_the_additions_of_a_stretch_are_one_addition() -> None:
    shelf = Shelf()
    shelf.merge(*(shelf.do(at, ("add", "n", at)) for at in (10, 20, 30)))
    reader = shelf.do(40, ("get", "n"))
    assert shelf.answer(reader) == (60,)

    shelf.do(5, ("put", "n", 100))

    assert shelf.withdrawn() == [reader]
    assert shelf.read("n") == 160


def test_additions_on_a_value_of_the_same_stretch_are_a_value() -> None:
    shelf = Shelf()
    shelf.merge(
        shelf.do(10, ("add", "n", 1)), shelf.do(20, ("put", "n", 7)), shelf.do(30, ("add", "n", 1))
    )
    assert shelf.read("n") == 8

    shelf.do(5, ("put", "n", 100))

    assert shelf.withdrawn() == []
    assert shelf.read("n") == 8


def test_a_sum_that_a_member_read_depends_on_what_came_before_the_stretch() -> None:
    shelf = Shelf()
    stretch = shelf.merge(shelf.do(10, ("add", "n", 1)), shelf.do(20, ("copy", "n", "sum")))

    shelf.do(5, ("add", "n", 100))

    assert shelf.withdrawn() == [stretch]


def test_what_cannot_be_added_to_withdraws_a_stretch_that_added_blindly() -> None:
    shelf = Shelf()
    stretch = shelf.merge(shelf.do(10, ("add", "n", 1)), shelf.do(20, ("put", "b", 1)))

    shelf.do(5, ("put", "n", "text"))

    assert shelf.withdrawn() == [stretch]


def test_a_stretch_remembers_additions_of_operations_that_raised() -> None:
    shelf = Shelf()
    stretch = shelf.merge(shelf.do(10, ("add", "n", 1), ("raise",)), shelf.do(20, ("put", "b", 1)))

    shelf.do(5, ("put", "n", "text"))

    assert shelf.withdrawn() == [stretch]


# --- scans --------------------------------------------------------------------------------------


def test_the_ranges_of_a_stretch_are_united_and_still_know_phantoms() -> None:
    shelf = Shelf()
    stretch = shelf.merge(
        shelf.do(10, ("scan", "a", "d", False, None)), shelf.do(20, ("scan", "c", "f", False, None))
    )
    assert len(stretch.scanned_ranges) == 1

    shelf.do(5, ("put", "g", 1))
    assert shelf.withdrawn() == []
    shelf.do(6, ("put", "e", 1))
    assert shelf.withdrawn() == [stretch]


# --- a late request inside ----------------------------------------------------------------------


def test_a_late_request_inside_that_touches_nothing_of_it_leaves_the_stretch_whole() -> None:
    shelf = Shelf()
    stretch = shelf.merge(shelf.do(10, ("put", "a", 1)), shelf.do(30, ("put", "b", 1)))

    late = shelf.do(20, ("copy", "c", "d"))

    assert shelf.withdrawn() == []
    assert late.phase is stretch.phase is ExecutionPhase.EXECUTED


def test_a_late_request_inside_that_touches_what_the_stretch_wrote_takes_it_apart() -> None:
    for steps in (("get", "a"), ("put", "a", 7), ("prefix", "a")):
        shelf = Shelf()
        members = shelf.do(10, ("put", "a", 1)), shelf.do(30, ("put", "a", 2))
        stretch = shelf.merge(*members)

        late = shelf.begin(shelf.put(20, steps))

        assert not shelf.finish(late)
        assert shelf.withdrawn() == [stretch]
        shelf.release(stretch)
        shelf.again(*members, late.entry)
        assert shelf.withdrawn() == []
        assert shelf.read("a", (25,)) == (7 if steps[0] == "put" else 1)
        assert shelf.read("a") == 2


def test_a_late_request_inside_that_writes_what_a_member_read_takes_it_apart() -> None:
    shelf = Shelf()
    stretch = shelf.merge(shelf.do(10, ("put", "a", 1)), shelf.do(30, ("copy", "b", "c")))

    shelf.do(20, ("put", "b", 7))

    assert shelf.withdrawn() == [stretch]


def test_a_late_write_inside_does_not_shield_the_members_before_it() -> None:
    """What a member at 20 read, and a late one at 30 wrote again alike, another changed at 15."""
    shelf = Shelf()
    shelf.do(1, ("put", "a", 0))
    stretch = shelf.merge(
        shelf.do(10, ("put", "x", 1)),
        shelf.do(20, ("copy", "a", "y")),
        shelf.do(40, ("put", "z", 1)),
    )

    shelf.do(30, ("put", "a", 0))
    shelf.do(15, ("put", "a", 7))

    assert shelf.withdrawn() == [stretch]


def test_a_late_deletion_inside_does_not_shield_the_scans_before_it() -> None:
    shelf = Shelf()
    stretch = shelf.merge(
        shelf.do(10, ("put", "x", 1)),
        shelf.do(20, ("scan", "a", "c", False, None)),
        shelf.do(40, ("put", "z", 1)),
    )

    shelf.do(30, ("delete", "b"))
    shelf.do(15, ("put", "b", 7))

    assert shelf.withdrawn() == [stretch]


# --- taken apart --------------------------------------------------------------------------------


def test_nothing_behind_a_stretch_that_was_taken_apart_is_sure_until_it_is_replaced() -> None:
    shelf = Shelf()
    members = shelf.do(10, ("put", "a", 1)), shelf.do(20, ("put", "b", 1))
    stretch = shelf.merge(*members)
    reader = shelf.do(30, ("get", "a"))

    shelf.take_apart(stretch)
    assert shelf.read("a") is ABSENT
    assert not shelf.store.is_valid_up_to((30,))
    assert reader.phase is ExecutionPhase.EXECUTED
    shelf.again(*members)
    assert not shelf.store.is_valid_up_to((30,))
    shelf.store.finish_split(stretch)

    assert shelf.store.is_valid_up_to(END)
    assert shelf.withdrawn() == []
    assert reader.reads["a"][0] is members[0].versions["a"]


def test_a_reader_is_withdrawn_when_the_members_leave_something_else() -> None:
    shelf = Shelf()
    members = shelf.do(10, ("copy", "x", "a")), shelf.do(20, ("put", "b", 1))
    stretch = shelf.merge(*members)
    of_a, of_b = shelf.do(30, ("get", "a")), shelf.do(31, ("get", "b"))

    shelf.do(5, ("put", "x", 7))
    assert shelf.withdrawn() == [stretch]
    shelf.release(stretch)
    shelf.again(*members)
    shelf.store.finish_split(stretch)

    assert shelf.withdrawn() == [of_a]
    assert of_b.phase is ExecutionPhase.EXECUTED


def test_to_take_a_stretch_apart_twice_does_nothing() -> None:
    shelf = Shelf()
    stretch = shelf.merge(shelf.do(10, ("put", "a", 1)), shelf.do(20, ("put", "b", 1)))
    shelf.take_apart(stretch)

    shelf.store.split(stretch)

    assert shelf.withdrawn() == []


def test_the_members_can_be_merged_again() -> None:
    shelf = Shelf()
    members = shelf.do(10, ("add", "n", 1)), shelf.do(20, ("add", "n", 1))
    shelf.take_apart(shelf.merge(*members))
    shelf.again(*members)

    shelf.merge(*members)

    assert shelf.read("n") == 2


# --- settled ------------------------------------------------------------------------------------


def test_a_stretch_settles_like_one_request() -> None:
    shelf = Shelf()
    stretch = shelf.merge(
        shelf.do(10, ("put", "a", 1), ("get", "gone")),
        shelf.do(20, ("add", "n", 1), ("delete", "b")),
        shelf.do(30, ("add", "n", 1), ("scan", "x", "y", False, None)),
    )

    shelf.store.stabilise(stretch)

    assert dict(shelf.store.stable_items()) == {"a": 1, "n": 2}
    assert shelf.version_count() == shelf.chain_count() == 0
    assert not shelf.store._merged_runs.intact_runs
    assert not shelf.store._read_index.scanned_ranges._by_prefix
