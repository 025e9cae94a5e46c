from typing import Any

import pytest

from creekdb.exploration.canonical import canonical_encoding
from creekdb.protocol.membership.rollback_detection import ReportedState


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
        (ReportedState(1, 2), ReportedState(1, 3)),
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


def test_the_order_of_a_set_is_ignored() -> None:
    ascending, descending = set[int](), set[int]()
    for number in range(0, 64, 8):
        ascending.add(number)
        descending.add(56 - number)

    assert [*ascending] != [*descending]
    assert canonical_encoding(ascending) == canonical_encoding(descending)


def test_shared_and_separate_objects_are_distinguished() -> None:
    shared = Node(value=1)

    assert canonical_encoding(shared, shared) != canonical_encoding(shared, Node(value=1))


def test_statistics_are_ignored() -> None:
    assert canonical_encoding(Node(rejected={})) == canonical_encoding(Node(rejected={"stale": 1}))
