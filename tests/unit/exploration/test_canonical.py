from typing import Any

import pytest

from creekdb.exploration.canonical import canonical_encoding


class Node:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, "1"),
        ((1, 2), (12,)),
        ({1: 2, 3: 4}, {3: 4, 1: 2}),
        (Node(value=1), Node(value=2)),
        (Slotted(1), Slotted(2)),
        ([[]], []),
        ([].append, [1].append),
    ],
)
def test_different_values_have_different_encodings(one: object, other: object) -> None:
    assert canonical_encoding(one) != canonical_encoding(other)


def test_equal_graphs_have_the_same_encoding() -> None:
    def graph() -> Node:
        root = Node(members={3, 1, 2}, name="root")
        root.__dict__["child"] = Node(parent=root)
        return root

    assert canonical_encoding(graph()) == canonical_encoding(graph())


def test_shared_and_separate_objects_are_distinguished() -> None:
    shared = Node(value=1)

    assert canonical_encoding(shared, shared) != canonical_encoding(shared, Node(value=1))


def test_statistics_are_ignored() -> None:
    assert canonical_encoding(Node(rejected={})) == canonical_encoding(Node(rejected={"stale": 1}))
