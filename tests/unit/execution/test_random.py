import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.execution.random import RequestRandom
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import NOOP, Request


def generator(timestamp: int = 1, replica: int = 2, event: int = 3) -> RequestRandom:
    return RequestRandom(Request(timestamp, Dot(replica, event), NOOP, strong=False))


def test_a_request_draws_the_same_numbers_in_every_process() -> None:
    random = generator()
    assert [random.randrange(1000) for _ in range(5)] == [620, 105, 915, 556, 715]
    assert f"{random.random():.6f}" == "0.108790"


@pytest.mark.parametrize("other", [(2, 2, 3), (1, 3, 3), (1, 2, 4), (2, 1, 3), (-1, 2, 3)])
def test_another_request_draws_other_numbers(other: tuple[int, int, int]) -> None:
    assert generator(*other).randrange(2**64) != generator().randrange(2**64)


@given(st.integers(), st.integers(-5, 5), st.integers(1, 2**64))
def test_a_random_number_lies_in_its_range(timestamp: int, start: int, width: int) -> None:
    random = generator(timestamp)
    assert start <= random.randrange(start, start + width) < start + width
    assert 0 <= random.randrange(width) < width
    assert 0.0 <= random.random() < 1.0


def test_random_numbers_are_distributed_evenly() -> None:
    counts = [0] * 10
    for event in range(10_000):
        counts[generator(event=event).randrange(10)] += 1
    assert all(900 < count < 1100 for count in counts)


def test_choice_reaches_every_element() -> None:
    random = generator()
    assert {random.choice("abc") for _ in range(50)} == set("abc")


def test_empty_and_invalid_ranges_are_errors() -> None:
    with pytest.raises(ValueError, match=r"the random range is empty or too wide: \[3, 3\)"):
        generator().randrange(3, 3)
    with pytest.raises(TypeError, match="the bounds of a random range must be integers"):
        generator().randrange("3")
    with pytest.raises(ValueError, match="cannot choose from an empty sequence"):
        generator().choice(())
