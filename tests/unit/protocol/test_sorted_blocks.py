"""Sorted blocks against a sorted list."""

from hypothesis import given
from hypothesis import strategies as st

from creekdb.protocol.sorted_blocks import BLOCK_SIZE, SortedBlocks, SortKey


class Item:
    def __init__(self, number: int) -> None:
        self.number = number
        self.key: SortKey = (number // 7, number % 7)


def filled(numbers: list[int]) -> tuple[SortedBlocks[Item], dict[int, Item]]:
    blocks: SortedBlocks[Item] = SortedBlocks()
    items = {number: Item(number) for number in numbers}
    for item in items.values():
        blocks.add(item.key, item)
    return blocks, items


def numbers_in(blocks: SortedBlocks[Item]) -> list[int]:
    return [item.number for item in blocks]


@given(st.lists(st.integers(0, 60), unique=True), st.lists(st.integers(0, 60)), st.integers(-1, 61))
def test_order_holds_after_any_additions_and_removals(
    added: list[int], removed: list[int], bound: int
) -> None:
    blocks, items = filled(added)
    for number in removed:
        item = items.pop(number, None) or Item(number)
        assert blocks.remove(item.key, item) is (number in added)
        added = [each for each in added if each != number]

    expected = sorted(added)
    assert numbers_in(blocks) == expected
    assert len(blocks) == len(expected)
    first = blocks.first()
    assert (first.number if first is not None else None) == (expected[0] if expected else None)
    after = [item.number for item in blocks.after(Item(bound).key)]
    assert after == [each for each in expected if each > bound]
    for limit in (1, 3, 100):
        assert [item.number for item in blocks.last(limit)] == expected[-limit:]


def test_blocks_stay_within_twice_their_size() -> None:
    count = 5 * BLOCK_SIZE
    blocks, items = filled([*range(0, count, 2), *range(1, count, 2)])

    assert numbers_in(blocks) == list(range(count))
    assert max(len(block.items) for block in blocks._blocks) <= 2 * BLOCK_SIZE
    assert [item.number for item in blocks.last(3 * BLOCK_SIZE)] == list(
        range(2 * BLOCK_SIZE, count)
    )
    later = blocks.after(items[count // 2].key)
    assert [item.number for item in later] == list(range(count // 2 + 1, count))

    for number in (*range(BLOCK_SIZE, count), *range(BLOCK_SIZE)):
        assert blocks.remove(items[number].key, items[number])
    assert (numbers_in(blocks), len(blocks), blocks._blocks) == ([], 0, [])


def test_another_item_with_the_same_key_is_not_removed() -> None:
    blocks, items = filled([1, 2, 3])

    assert not blocks.remove(items[2].key, Item(2))
    assert not blocks.remove(items[1].key, Item(1))
    assert numbers_in(blocks) == [1, 2, 3]


def test_cleared_sequence_can_be_reused() -> None:
    blocks, items = filled([1, 2, 3])
    blocks.clear()

    assert (numbers_in(blocks), len(blocks), blocks.first()) == ([], 0, None)
    blocks.add(items[2].key, items[2])
    assert numbers_in(blocks) == [2]
