"""Things in order, against a list that is sorted anew each time."""

from hypothesis import given
from hypothesis import strategies as st

from creekdb.protocol.sorted_blocks import BLOCK_SIZE, SortedBlocks, SortKey


class Thing:
    def __init__(self, number: int) -> None:
        self.number = number
        self.rank: SortKey = (number // 7, number % 7)


def filled(numbers: list[int]) -> tuple[SortedBlocks[Thing], dict[int, Thing]]:
    ranking: SortedBlocks[Thing] = SortedBlocks()
    things = {number: Thing(number) for number in numbers}
    for thing in things.values():
        ranking.add(thing.rank, thing)
    return ranking, things


def shown(ranking: SortedBlocks[Thing]) -> list[int]:
    return [thing.number for thing in ranking]


@given(st.lists(st.integers(0, 60), unique=True), st.lists(st.integers(0, 60)), st.integers(-1, 61))
def test_it_is_in_order_whatever_is_added_and_removed(
    added: list[int], removed: list[int], place: int
) -> None:
    ranking, things = filled(added)
    for number in removed:
        thing = things.pop(number, None) or Thing(number)
        assert ranking.remove(thing.rank, thing) is (number in added)
        added = [each for each in added if each != number]

    expected = sorted(added)
    assert shown(ranking) == expected
    assert len(ranking) == len(expected)
    first = ranking.first()
    assert (first.number if first is not None else None) == (expected[0] if expected else None)
    after = [thing.number for thing in ranking.after(Thing(place).rank)]
    assert after == [each for each in expected if each > place]
    for most in (1, 3, 100):
        assert [thing.number for thing in ranking.last(most)] == expected[-most:]


def test_many_things_are_kept_in_parts_that_stay_small() -> None:
    count = 5 * BLOCK_SIZE
    ranking, things = filled([*range(0, count, 2), *range(1, count, 2)])

    assert shown(ranking) == list(range(count))
    assert max(len(part.items) for part in ranking._blocks) <= 2 * BLOCK_SIZE
    assert [thing.number for thing in ranking.last(3 * BLOCK_SIZE)] == list(
        range(2 * BLOCK_SIZE, count)
    )
    later = ranking.after(things[count // 2].rank)
    assert [thing.number for thing in later] == list(range(count // 2 + 1, count))

    for number in (*range(BLOCK_SIZE, count), *range(BLOCK_SIZE)):
        assert ranking.remove(things[number].rank, things[number])
    assert (shown(ranking), len(ranking), ranking._blocks) == ([], 0, [])


def test_another_thing_of_the_same_rank_is_not_removed_by_mistake() -> None:
    ranking, things = filled([1, 2, 3])

    assert not ranking.remove(things[2].rank, Thing(2))
    assert not ranking.remove(things[1].rank, Thing(1))
    assert shown(ranking) == [1, 2, 3]


def test_after_clearing_it_can_be_used_again() -> None:
    ranking, things = filled([1, 2, 3])
    ranking.clear()

    assert (shown(ranking), len(ranking), ranking.first()) == ([], 0, None)
    ranking.add(things[2].rank, things[2])
    assert shown(ranking) == [2]
