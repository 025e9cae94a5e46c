"""Images of the settled state: one moment, in as many parts as one likes."""

from typing import Any

from creekdb.execution.mvcc.register_table import CheckpointCursor
from creekdb.protocol.values import Key
from tests.unit.execution.mvcc.store_fixture import Shelf, arrived


def shown(image: CheckpointCursor, most: int = 2) -> tuple[dict[Key, Any], list[Key]]:
    held: dict[Key, Any] = {}
    deleted: list[Key] = []
    while (found := image.take(most)) is not None:
        assert len(found[0]) + len(found[1]) <= most
        held.update(found[0])
        deleted += found[1]
    return held, deleted


def settle(shelf: Shelf, at: int, *steps: tuple[Any, ...]) -> None:
    shelf.store.stabilise(shelf.do(at, *steps))


def test_an_image_shows_the_moment_when_it_was_taken() -> None:
    shelf = Shelf()
    settle(shelf, 1, ("put", "a", 1), ("put", "b", 2), ("put", "c", 3))
    image = shelf.store.open_cursor()
    assert image.take(1) == ([("a", 1)], [])
    settle(shelf, 2, ("put", "a", 9), ("put", "b", 9), ("delete", "c"), ("put", "d", 9))
    settle(shelf, 3, ("put", "c", 9))
    assert shown(image) == ({"b": 2, "c": 3}, [])
    assert shown(shelf.store.open_cursor()) == ({"a": 9, "b": 9, "c": 9, "d": 9}, [])


def test_what_is_not_settled_is_not_in_it() -> None:
    shelf = Shelf()
    settle(shelf, 1, ("put", "a", 1))
    shelf.do(2, ("put", "a", 2), ("put", "b", 2))
    assert shown(shelf.store.open_cursor()) == ({"a": 1}, [])


def test_two_images_do_not_disturb_each_other() -> None:
    shelf = Shelf()
    settle(shelf, 1, ("put", "a", 1), ("put", "b", 1))
    first = shelf.store.open_cursor()
    settle(shelf, 2, ("put", "a", 2), ("delete", "b"))
    second = shelf.store.open_cursor()
    settle(shelf, 3, ("put", "a", 3), ("put", "b", 3))
    assert shown(first) == ({"a": 1, "b": 1}, [])
    assert shown(second) == ({"a": 2}, [])


def test_a_state_that_is_loaded_meanwhile_changes_nothing() -> None:
    shelf = Shelf()
    settle(shelf, 1, ("put", "a", 1))
    image = shelf.store.open_cursor()
    shelf.store.load(arrived(("b", 2)))
    assert shown(image) == ({"a": 1}, [])
    assert shown(shelf.store.open_cursor()) == ({"b": 2}, [])


def test_keys_that_are_gone_are_not_listed_for_ever() -> None:
    shelf = Shelf()
    for at in range(1, 200, 2):
        settle(shelf, at, ("put", ("t", at), 1))
        settle(shelf, at + 1, ("delete", ("t", at)))
    settle(shelf, 300, ("put", "a", 1))
    assert shown(shelf.store.open_cursor()) == ({"a": 1}, [])
    keys = shelf.store._table._key_list
    assert keys is not None
    assert (keys.keys, keys.removed) == (["a"], set())
