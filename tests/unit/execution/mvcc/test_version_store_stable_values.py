"""Stable values of the version store: stabilisation, memory, loading and base states."""

from collections.abc import Iterator
from typing import Any

from creekdb.execution.keys import CollationKey, collation_key
from creekdb.execution.mvcc.entry import ExecutionPhase, ReaderGroup
from creekdb.protocol.values import Key
from tests.unit.execution.mvcc.store_fixture import ABSENT, END, StoreFixture, loaded_state


class SmallBase:
    """Base state with a few registers."""

    def __init__(self, **registers: Any) -> None:
        self.registers = registers

    def read(self, key: Key) -> Any:
        return self.registers.get(str(key), ABSENT)

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        keys = [key for key in self.registers if start <= collation_key(key) < stop]
        return iter(sorted(keys, key=collation_key, reverse=reverse))


# --- stabilisation ------------------------------------------------------------------------------


def test_stabilisation_leaves_one_value_per_register() -> None:
    fixture = StoreFixture()
    entries = [fixture.execute(at, ("put", "a", at), ("put", "b", at)) for at in range(10, 20)]

    for each in entries:
        fixture.store.stabilise(each)

    assert (fixture.version_count(), len(fixture.store.table.registers)) == (0, 2)
    assert dict(fixture.store.table.stable_items()) == {"a": 19, "b": 19}
    assert all(not each.versions and not each.reads for each in entries)


def test_stabilisation_keeps_later_versions() -> None:
    fixture = StoreFixture()
    first = fixture.execute(10, ("put", "a", 1))
    fixture.execute(20, ("put", "a", 2))

    fixture.store.stabilise(first)

    assert [fixture.read("a", (at,)) for at in (15, 25)] == [1, 2]
    assert dict(fixture.store.table.stable_items()) == {"a": 1}
    assert fixture.state() == {"a": 2}


def test_readers_of_a_stable_version_are_still_found() -> None:
    fixture = StoreFixture()
    writer = fixture.execute(10, ("put", "a", 1))
    reader = fixture.execute(30, ("get", "a"))
    fixture.store.stabilise(writer)

    fixture.execute(20, ("put", "a", 2))

    assert fixture.rolled_back() == [reader]


def test_a_deleted_register_is_dropped() -> None:
    fixture = StoreFixture()
    written, deleted = fixture.execute(10, ("put", "a", 1)), fixture.execute(20, ("delete", "a"))

    fixture.store.stabilise(written)
    fixture.store.stabilise(deleted)

    assert fixture.chain_count() == len(fixture.store.table.registers) == 0


def test_readers_of_a_dropped_register_are_still_found() -> None:
    fixture = StoreFixture()
    written, deleted = fixture.execute(10, ("put", "a", 1)), fixture.execute(20, ("delete", "a"))
    reader = fixture.execute(40, ("get", "a"))
    fixture.store.stabilise(written)
    fixture.store.stabilise(deleted)

    fixture.execute(30, ("put", "a", 2))
    assert fixture.rolled_back() == [reader]


def test_reading_an_absent_register_does_not_create_it() -> None:
    fixture = StoreFixture()
    fixture.execute(10, ("get", "a"), ("scan", None, None, False, None))

    assert fixture.chain_count() == len(fixture.store.table.registers) == 0


def test_an_operation_that_added_and_raised_creates_no_register() -> None:
    fixture = StoreFixture()

    fixture.store.stabilise(fixture.execute(10, ("add", "a", 1), ("raise",)))

    assert fixture.chain_count() == 0


def test_a_register_that_only_a_rolled_back_execution_wrote_is_dropped() -> None:
    fixture = StoreFixture()
    writer = fixture.execute(20, ("put_unless", "a", "b", 1))
    first = fixture.execute(10, ("put", "a", 1))
    fixture.rolled_back()
    fixture.reexecute(writer)

    fixture.store.stabilise(first)
    fixture.store.stabilise(writer)

    assert (fixture.chain_count(), len(fixture.store.table.registers)) == (0, 1)


def test_a_register_that_only_a_rolled_back_execution_wrote_is_dropped_at_once() -> None:
    fixture = StoreFixture()
    reader = fixture.execute(20, ("put_unless", "a", "b", 1), ("get", "c"), ("copy", "b", "d"))
    first = fixture.execute(10, ("put", "a", 1))
    assert fixture.rolled_back() == [reader]

    assert fixture.unstable_keys() == fixture.registers() == {"a"}
    fixture.reexecute(reader)
    fixture.store.stabilise(first)
    fixture.store.stabilise(reader)
    assert fixture.registers() == {"a", "d"}


def test_a_hidden_version_outlives_its_register() -> None:
    fixture = StoreFixture()
    before = fixture.execute(5, ("get", "b"))
    writer = fixture.execute(20, ("get", "a"), ("put", "b", 1))
    reader = fixture.execute(30, ("scan", "b", "c", False, None))
    fixture.execute(10, ("put", "a", 1))
    assert fixture.rolled_back() == [writer]
    fixture.store.stabilise(before)
    assert "b" not in fixture.unstable_keys()

    fixture.reexecute(writer)

    assert fixture.rolled_back() == []
    fixture.execute(25, ("put", "b", 2))
    fixture.execute(26, ("delete", "b"))
    assert fixture.rolled_back() == [reader]


def test_a_read_of_a_vanished_version_creates_no_register() -> None:
    fixture = StoreFixture()
    writer, reader = (
        fixture.execute(20, ("put_unless", "a", "b", 1)),
        fixture.execute(30, ("get", "b")),
    )
    fixture.execute(10, ("put", "a", 1))
    assert fixture.rolled_back() == [writer]
    fixture.reexecute(writer)
    assert fixture.rolled_back() == [reader]

    assert fixture.unstable_keys() == {"a"}


def test_an_addability_check_does_not_create_a_register() -> None:
    fixture = StoreFixture()
    fixture.begin(fixture.add(10, ("add", "a", 1)))

    assert fixture.chain_count() == 0


def test_a_reader_that_is_often_re_executed_is_stored_once() -> None:
    fixture = StoreFixture()
    fixture.execute(1, ("put", "hot", 1))
    reader = fixture.execute(5000, ("get", "hot"), ("get", "other"))
    for at in range(10, 500):
        fixture.execute(at, ("put", "other", at))
        assert fixture.rolled_back() == [reader]
        fixture.reexecute(reader)

    version, _ = reader.reads["hot"]
    assert version is not None
    assert version.readers is reader


def test_a_reader_in_a_group_that_is_often_re_executed_is_stored_few_times() -> None:
    fixture = StoreFixture()
    fixture.execute(1, ("put", "hot", 1))
    reader = fixture.execute(5000, ("get", "hot"), ("get", "other"))
    other = fixture.execute(6000, ("get", "hot"))
    for at in range(10, 500):
        fixture.execute(at, ("put", "other", at))
        assert fixture.rolled_back() == [reader]
        fixture.reexecute(reader)

    version, _ = reader.reads["hot"]
    assert version is not None
    assert isinstance(version.readers, ReaderGroup)
    assert set(version.readers.entries) == {reader, other}
    assert len(version.readers.entries) <= 32


def test_stable_readers_are_dropped() -> None:
    fixture = StoreFixture()
    fixture.store.stabilise(fixture.execute(1, ("put", "hot", 1)))
    for at in range(10, 500):
        fixture.store.stabilise(fixture.execute(at, ("get", "hot")))

    assert not fixture.store._read_index.stable_readers


def test_stable_readers_in_a_group_are_dropped_in_time() -> None:
    fixture = StoreFixture()
    fixture.store.stabilise(fixture.execute(1, ("put", "hot", 1)))
    live = [fixture.execute(at, ("get", "hot")) for at in range(10, 15)]
    for at in range(15, 500):
        fixture.store.stabilise(live.pop(0))
        live.append(fixture.execute(at, ("get", "hot")))

    readers = fixture.store._read_index.stable_readers["hot"]
    assert isinstance(readers, ReaderGroup)
    assert len(readers.entries) <= 32
    for reader in live:
        fixture.store.stabilise(reader)
    assert not fixture.store._read_index.stable_readers


# --- loading ------------------------------------------------------------------------------------


def test_loading_replaces_the_state_and_drops_all_entries() -> None:
    fixture = StoreFixture()
    fixture.execute(20, ("get", "a"), ("put", "b", 1))
    reader = fixture.execute(30, ("get", "b"), ("scan", "m", "z", False, None))
    fixture.execute(10, ("put", "a", 1))
    assert not fixture.store.is_valid_up_to(END)

    fixture.store.load(loaded_state(("x", 1), ("y", (2,))))

    assert fixture.store.is_valid_up_to(END)
    assert fixture.rolled_back() == []
    assert fixture.state() == dict(fixture.store.table.stable_items()) == {"x": 1, "y": (2,)}
    fixture.execute(5, ("put", "b", 1), ("put", "n", 1))
    assert fixture.rolled_back() == []
    assert reader.phase is ExecutionPhase.EXECUTED, "the store no longer holds this entry"


def test_loaded_registers_can_be_overwritten_and_scanned() -> None:
    fixture = StoreFixture()
    fixture.store.load(loaded_state(("x", 1), ("y", 2)))
    reader = fixture.execute(20, ("scan", "x", "z", False, None), ("get", "y"))
    assert fixture.response(reader) == (("x", "y"), 2)

    fixture.execute(10, ("delete", "y"))

    assert fixture.rolled_back() == [reader]


# --- base state ---------------------------------------------------------------------------------


def test_base_registers_are_read_scanned_and_overwritten() -> None:
    fixture = StoreFixture(SmallBase(a=1, c=3))
    reader = fixture.execute(20, ("get", "a"), ("scan", None, None, True, None))
    assert fixture.response(reader) == (1, ("c", "a"))

    fixture.execute(10, ("put", "c", 3), ("put", "a", 1))
    assert fixture.rolled_back() == []
    fixture.execute(11, ("delete", "c"))
    assert fixture.rolled_back() == [reader]
    assert fixture.scan() == ["a"]


def test_a_scan_merges_written_and_base_registers() -> None:
    fixture = StoreFixture(SmallBase(a=1, c=3, e=5))
    fixture.execute(10, ("put", "b", 2), ("put", "c", 4), ("delete", "e"))

    assert fixture.scan() == ["a", "b", "c"]
    assert fixture.scan((5,)) == ["a", "c", "e"]


def test_a_new_key_between_base_registers_is_a_phantom() -> None:
    fixture = StoreFixture(SmallBase(a=1, c=3))
    scan = fixture.execute(20, ("scan", "a", "d", False, None))

    fixture.execute(10, ("put", "b", 2))

    assert fixture.rolled_back() == [scan]


def test_a_deleted_base_register_stays_deleted() -> None:
    fixture = StoreFixture(SmallBase(a=1))

    fixture.store.stabilise(fixture.execute(10, ("delete", "a")))

    assert fixture.read("a") is ABSENT
    assert fixture.scan() == []


def test_an_addition_to_a_base_register_is_blind_if_it_holds_an_integer() -> None:
    fixture = StoreFixture(SmallBase(n=5, t="text"))

    blind, reading = fixture.execute(10, ("add", "n", 1)), fixture.execute(20, ("add", "t", 1))

    assert not blind.reads
    assert fixture.read("n") == 6
    assert fixture.response(reading).startswith("BadValue")


def test_a_running_reader_of_a_register_that_is_dropped_is_still_found() -> None:
    fixture = StoreFixture()
    first = fixture.execute(10, ("delete", "a"))
    running = fixture.begin(fixture.add(20, ("get", "a")))
    fixture.store.stabilise(first)
    assert "a" not in fixture.registers()

    assert fixture.finish(running)
    fixture.execute(15, ("put", "a", 1))

    assert fixture.rolled_back() == [running.entry]
