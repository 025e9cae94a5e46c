"""Checkpoint cursors: the stable state of one moment, in batches of any size."""

from typing import Any

from creekdb.execution.base_state import EmptyBase
from creekdb.execution.mvcc.register_table import CheckpointCursor, RegisterTable
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key
from tests.unit.execution.mvcc.store_fixture import StoreFixture, loaded_state


def read_all(cursor: CheckpointCursor, count: int = 2) -> tuple[dict[Key, Any], list[Key]]:
    items: dict[Key, Any] = {}
    deleted: list[Key] = []
    while (batch := cursor.take(count)) is not None:
        assert len(batch[0]) + len(batch[1]) <= count
        items.update(batch[0])
        deleted += batch[1]
    return items, deleted


def execute_stable(fixture: StoreFixture, at: int, *steps: tuple[Any, ...]) -> None:
    fixture.store.stabilise(fixture.execute(at, *steps))


def test_a_cursor_returns_the_state_at_its_opening() -> None:
    fixture = StoreFixture()
    execute_stable(fixture, 1, ("put", "a", 1), ("put", "b", 2), ("put", "c", 3))
    cursor = fixture.store.table.open_cursor()
    assert cursor.take(1) == ([("a", 1)], [])
    execute_stable(fixture, 2, ("put", "a", 9), ("put", "b", 9), ("delete", "c"), ("put", "d", 9))
    execute_stable(fixture, 3, ("put", "c", 9))
    assert read_all(cursor) == ({"b": 2, "c": 3}, [])
    assert read_all(fixture.store.table.open_cursor()) == ({"a": 9, "b": 9, "c": 9, "d": 9}, [])


def test_a_cursor_excludes_versions_that_are_not_stable() -> None:
    fixture = StoreFixture()
    execute_stable(fixture, 1, ("put", "a", 1))
    fixture.execute(2, ("put", "a", 2), ("put", "b", 2))
    assert read_all(fixture.store.table.open_cursor()) == ({"a": 1}, [])


def test_two_cursors_are_independent() -> None:
    fixture = StoreFixture()
    execute_stable(fixture, 1, ("put", "a", 1), ("put", "b", 1))
    first = fixture.store.table.open_cursor()
    execute_stable(fixture, 2, ("put", "a", 2), ("delete", "b"))
    second = fixture.store.table.open_cursor()
    execute_stable(fixture, 3, ("put", "a", 3), ("put", "b", 3))
    assert read_all(first) == ({"a": 1, "b": 1}, [])
    assert read_all(second) == ({"a": 2}, [])


def test_a_cursor_is_independent_of_a_state_loaded_meanwhile() -> None:
    fixture = StoreFixture()
    execute_stable(fixture, 1, ("put", "a", 1))
    cursor = fixture.store.table.open_cursor()
    fixture.store.load(loaded_state(("b", 2)))
    assert read_all(cursor) == ({"a": 1}, [])
    assert read_all(fixture.store.table.open_cursor()) == ({"b": 2}, [])


def test_a_cursor_keeps_the_state_that_a_loaded_one_replaced() -> None:
    fixture = StoreFixture()
    execute_stable(fixture, 1, ("put", "a", 1), ("put", "b", 2), ("put", "c", 3))
    cursor, loader = fixture.store.table.open_cursor(), loaded_state(("a", 7), ("c", 8))
    assert cursor.take(1) == ([("a", 1)], [])
    fixture.store.load(loader)
    for _ in range(10):
        loader.discard(1)
    execute_stable(fixture, 2, ("put", "c", 9))
    assert cursor.take(10) == ([("b", 2), ("c", 3)], [])
    assert cursor.take(10) is None
    assert read_all(fixture.store.table.open_cursor()) == ({"a": 7, "c": 9}, [])


def test_the_loader_receives_a_replaced_state_without_open_cursors() -> None:
    fixture = StoreFixture()
    execute_stable(fixture, 1, ("put", "a", 1))
    read_all(fixture.store.table.open_cursor())
    loader = loaded_state(("b", 2))
    fixture.store.load(loader)
    assert loader.registers == {"a": 1}


def test_registers_of_the_base_that_a_loaded_state_deletes_stay_deleted() -> None:
    class OneRegister(EmptyBase):
        def read(self, key: Key) -> Any:
            return 5 if key == "a" else ABSENT

    table = RegisterTable(OneRegister(), None, with_cursors=True)
    loader = StateLoader(OneRegister(), with_digest=False, with_order=True)
    loader.add([("b", 2)], ["a"])
    table.load(loader)
    assert table.stable_value("a") is ABSENT
    assert read_all(table.open_cursor()) == ({"b": 2}, ["a"])
    assert read_all(table.open_cursor()) == ({"b": 2}, ["a"])


def test_a_cursor_compacts_the_key_list() -> None:
    fixture = StoreFixture()
    for at in range(1, 200, 2):
        execute_stable(fixture, at, ("put", ("t", at), 1))
        execute_stable(fixture, at + 1, ("delete", ("t", at)))
    execute_stable(fixture, 300, ("put", "a", 1))
    assert read_all(fixture.store.table.open_cursor()) == ({"a": 1}, [])
    keys = fixture.store.table._key_list
    assert keys is not None
    assert (keys.keys, keys.removed) == (["a"], set())
