"""What the version store forgets, what it keeps, and how it starts anew."""

from collections.abc import Iterator
from typing import Any

from creekdb.execution.keys import CollationKey, collation_key
from creekdb.execution.mvcc.entry import ExecutionPhase, ReaderGroup
from creekdb.protocol.values import Key
from tests.unit.execution.mvcc.store_fixture import ABSENT, END, Shelf, arrived


class Furnished:
    """A base with a few registers in it."""

    def __init__(self, **registers: Any) -> None:
        self.registers = registers

    def read(self, key: Key) -> Any:
        return self.registers.get(str(key), ABSENT)

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        inside = [key for key in self.registers if start <= collation_key(key) < stop]
        return iter(sorted(inside, key=collation_key, reverse=reverse))


# --- what is settled ----------------------------------------------------------------------------


def test_settling_leaves_one_value_of_each_register() -> None:
    shelf = Shelf()
    entries = [shelf.do(at, ("put", "a", at), ("put", "b", at)) for at in range(10, 20)]

    for each in entries:
        shelf.store.stabilise(each)

    assert (shelf.version_count(), shelf.store.register_count()) == (0, 2)
    assert dict(shelf.store.stable_items()) == {"a": 19, "b": 19}
    assert all(not each.versions and not each.reads for each in entries)


def test_settling_keeps_what_stands_behind() -> None:
    shelf = Shelf()
    first = shelf.do(10, ("put", "a", 1))
    shelf.do(20, ("put", "a", 2))

    shelf.store.stabilise(first)

    assert [shelf.read("a", (at,)) for at in (15, 25)] == [1, 2]
    assert dict(shelf.store.stable_items()) == {"a": 1}
    assert shelf.state() == {"a": 2}


def test_the_readers_of_a_settled_version_are_still_found() -> None:
    shelf = Shelf()
    writer = shelf.do(10, ("put", "a", 1))
    reader = shelf.do(30, ("get", "a"))
    shelf.store.stabilise(writer)

    shelf.do(20, ("put", "a", 2))

    assert shelf.withdrawn() == [reader]


def test_a_deleted_register_is_forgotten() -> None:
    shelf = Shelf()
    written, deleted = shelf.do(10, ("put", "a", 1)), shelf.do(20, ("delete", "a"))

    shelf.store.stabilise(written)
    shelf.store.stabilise(deleted)

    assert shelf.chain_count() == shelf.store.register_count() == 0


def test_who_relies_on_the_absence_of_a_forgotten_register_is_still_found() -> None:
    shelf = Shelf()
    written, deleted = shelf.do(10, ("put", "a", 1)), shelf.do(20, ("delete", "a"))
    reader = shelf.do(40, ("get", "a"))
    shelf.store.stabilise(written)
    shelf.store.stabilise(deleted)

    shelf.do(30, ("put", "a", 2))
    assert shelf.withdrawn() == [reader]


def test_looking_at_an_absent_register_does_not_bring_it_into_being() -> None:
    shelf = Shelf()
    shelf.do(10, ("get", "a"), ("scan", None, None, False, None))

    assert shelf.chain_count() == shelf.store.register_count() == 0


def test_an_operation_that_added_and_raised_leaves_no_register_behind() -> None:
    shelf = Shelf()

    shelf.store.stabilise(shelf.do(10, ("add", "a", 1), ("raise",)))

    assert shelf.chain_count() == 0


def test_a_register_that_only_a_withdrawn_execution_wrote_is_forgotten() -> None:
    shelf = Shelf()
    writer = shelf.do(20, ("put_unless", "a", "b", 1))
    settled = shelf.do(10, ("put", "a", 1))
    shelf.withdrawn()
    shelf.again(writer)

    shelf.store.stabilise(settled)
    shelf.store.stabilise(writer)

    assert (shelf.chain_count(), shelf.store.register_count()) == (0, 1)


def test_a_register_that_only_a_withdrawn_execution_wrote_is_forgotten_at_once() -> None:
    shelf = Shelf()
    reader = shelf.do(20, ("put_unless", "a", "b", 1), ("get", "c"), ("copy", "b", "d"))
    first = shelf.do(10, ("put", "a", 1))
    assert shelf.withdrawn() == [reader]

    assert shelf.unsettled() == shelf.registers() == {"a"}
    shelf.again(reader)
    shelf.store.stabilise(first)
    shelf.store.stabilise(reader)
    assert shelf.registers() == {"a", "d"}


def test_a_hidden_version_outlives_the_register_that_it_was_in() -> None:
    shelf = Shelf()
    before = shelf.do(5, ("get", "b"))
    writer = shelf.do(20, ("get", "a"), ("put", "b", 1))
    reader = shelf.do(30, ("scan", "b", "c", False, None))
    shelf.do(10, ("put", "a", 1))
    assert shelf.withdrawn() == [writer]
    shelf.store.stabilise(before)
    assert "b" not in shelf.unsettled()

    shelf.again(writer)

    assert shelf.withdrawn() == []
    shelf.do(25, ("put", "b", 2))
    shelf.do(26, ("delete", "b"))
    assert shelf.withdrawn() == [reader]


def test_a_reader_of_what_did_not_come_back_leaves_no_register_behind() -> None:
    shelf = Shelf()
    writer, reader = shelf.do(20, ("put_unless", "a", "b", 1)), shelf.do(30, ("get", "b"))
    shelf.do(10, ("put", "a", 1))
    assert shelf.withdrawn() == [writer]
    shelf.again(writer)
    assert shelf.withdrawn() == [reader]

    assert shelf.unsettled() == {"a"}


def test_trying_whether_one_may_add_does_not_bring_a_register_into_being() -> None:
    shelf = Shelf()
    shelf.begin(shelf.put(10, ("add", "a", 1)))

    assert shelf.chain_count() == 0


def test_readers_that_came_back_often_are_remembered_once() -> None:
    shelf = Shelf()
    shelf.do(1, ("put", "hot", 1))
    reader = shelf.do(5000, ("get", "hot"), ("get", "other"))
    for at in range(10, 500):
        shelf.do(at, ("put", "other", at))
        assert shelf.withdrawn() == [reader]
        shelf.again(reader)

    version, _ = reader.reads["hot"]
    assert version is not None
    assert version.readers is reader


def test_readers_among_others_that_came_back_often_are_remembered_once() -> None:
    shelf = Shelf()
    shelf.do(1, ("put", "hot", 1))
    reader = shelf.do(5000, ("get", "hot"), ("get", "other"))
    other = shelf.do(6000, ("get", "hot"))
    for at in range(10, 500):
        shelf.do(at, ("put", "other", at))
        assert shelf.withdrawn() == [reader]
        shelf.again(reader)

    version, _ = reader.reads["hot"]
    assert version is not None
    assert isinstance(version.readers, ReaderGroup)
    assert set(version.readers.entries) == {reader, other}
    assert len(version.readers.entries) <= 32


def test_readers_that_are_settled_are_not_remembered() -> None:
    shelf = Shelf()
    shelf.store.stabilise(shelf.do(1, ("put", "hot", 1)))
    for at in range(10, 500):
        shelf.store.stabilise(shelf.do(at, ("get", "hot")))

    assert not shelf.store._read_index.stable_readers


def test_of_many_readers_those_that_are_settled_are_hardly_remembered() -> None:
    shelf = Shelf()
    shelf.store.stabilise(shelf.do(1, ("put", "hot", 1)))
    live = [shelf.do(at, ("get", "hot")) for at in range(10, 15)]
    for at in range(15, 500):
        shelf.store.stabilise(live.pop(0))
        live.append(shelf.do(at, ("get", "hot")))

    readers = shelf.store._read_index.stable_readers["hot"]
    assert isinstance(readers, ReaderGroup)
    assert len(readers.entries) <= 32
    for reader in live:
        shelf.store.stabilise(reader)
    assert not shelf.store._read_index.stable_readers


# --- from a checkpoint --------------------------------------------------------------------------


def test_loading_starts_anew() -> None:
    shelf = Shelf()
    shelf.do(20, ("get", "a"), ("put", "b", 1))
    reader = shelf.do(30, ("get", "b"), ("scan", "m", "z", False, None))
    shelf.do(10, ("put", "a", 1))
    assert not shelf.store.is_valid_up_to(END)

    shelf.store.load(arrived(("x", 1), ("y", (2,))))

    assert shelf.store.is_valid_up_to(END)
    assert shelf.withdrawn() == []
    assert shelf.state() == dict(shelf.store.stable_items()) == {"x": 1, "y": (2,)}
    shelf.do(5, ("put", "b", 1), ("put", "n", 1))
    assert shelf.withdrawn() == []
    assert reader.phase is ExecutionPhase.EXECUTED, "and void: the store has forgotten it"


def test_what_was_loaded_can_be_overwritten_and_scanned() -> None:
    shelf = Shelf()
    shelf.store.load(arrived(("x", 1), ("y", 2)))
    reader = shelf.do(20, ("scan", "x", "z", False, None), ("get", "y"))
    assert shelf.answer(reader) == (("x", "y"), 2)

    shelf.do(10, ("delete", "y"))

    assert shelf.withdrawn() == [reader]


# --- a base below it ----------------------------------------------------------------------------


def test_what_lies_below_is_read_scanned_and_overwritten() -> None:
    shelf = Shelf(Furnished(a=1, c=3))
    reader = shelf.do(20, ("get", "a"), ("scan", None, None, True, None))
    assert shelf.answer(reader) == (1, ("c", "a"))

    shelf.do(10, ("put", "c", 3), ("put", "a", 1))
    assert shelf.withdrawn() == []
    shelf.do(11, ("delete", "c"))
    assert shelf.withdrawn() == [reader]
    assert shelf.scan() == ["a"]


def test_a_scan_sees_what_was_written_among_what_lies_below() -> None:
    shelf = Shelf(Furnished(a=1, c=3, e=5))
    shelf.do(10, ("put", "b", 2), ("put", "c", 4), ("delete", "e"))

    assert shelf.scan() == ["a", "b", "c"]
    assert shelf.scan((5,)) == ["a", "c", "e"]


def test_a_new_key_among_what_lies_below_is_a_phantom() -> None:
    shelf = Shelf(Furnished(a=1, c=3))
    scan = shelf.do(20, ("scan", "a", "d", False, None))

    shelf.do(10, ("put", "b", 2))

    assert shelf.withdrawn() == [scan]


def test_a_register_that_lies_below_and_was_deleted_stays_deleted() -> None:
    shelf = Shelf(Furnished(a=1))

    shelf.store.stabilise(shelf.do(10, ("delete", "a")))

    assert shelf.read("a") is ABSENT
    assert shelf.scan() == []


def test_one_adds_to_what_lies_below_without_looking_if_it_is_an_integer() -> None:
    shelf = Shelf(Furnished(n=5, t="text"))

    blind, looks = shelf.do(10, ("add", "n", 1)), shelf.do(20, ("add", "t", 1))

    assert not blind.reads
    assert shelf.read("n") == 6
    assert shelf.answer(looks).startswith("BadValue")


def test_a_register_that_is_forgotten_while_one_who_read_it_runs_is_remembered_for_it() -> None:
    shelf = Shelf()
    first = shelf.do(10, ("delete", "a"))
    running = shelf.begin(shelf.put(20, ("get", "a")))
    shelf.store.stabilise(first)
    assert "a" not in shelf.registers()

    assert shelf.finish(running)
    shelf.do(15, ("put", "a", 1))

    assert shelf.withdrawn() == [running.entry]
