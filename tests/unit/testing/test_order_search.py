"""The search finds the shortest order that breaks an invariant."""

import pytest

from creekdb.errors import BadValue
from creekdb.execution.sequential import Sequential
from creekdb.testing import InvariantBroken, explore
from tests.unit.testing.seat_types import book, seats


def has_no_seats_of_eve(machine: Sequential) -> bool:
    return "eve" not in machine.state.values()


def test_all_orders_are_explored() -> None:
    calls = [(book, 9, "ann"), (book, 9, "bob"), ("book", 8, "bob")]
    search = explore(seats, calls, invariant=has_no_seats_of_eve)
    assert search.final_states == 2
    errors = {text: {each.error for each in found} for text, found in search.outcomes.items()}
    assert errors["book(9, 'ann')"] == {None, "LookupError: booked by bob"}
    assert errors["book(8, 'bob')"] == {None}


def test_a_broken_invariant_is_reported_with_the_fewest_calls() -> None:
    calls = [(book, 9, "ann"), (book, 9, "eve"), (book, 8, "bob")]
    with pytest.raises(
        InvariantBroken, match=r"after 1 call:\n  1\. book\(9, 'eve'\) -> 9"
    ) as error:
        explore(seats, calls, invariant=has_no_seats_of_eve)
    assert [each.arguments for each in error.value.order] == [(9, "eve")]


def test_a_session_keeps_its_order() -> None:
    def nine_before_eight(machine: Sequential) -> None:
        assert 8 not in machine.state or 9 in machine.state, "8 came first"

    calls = (book, 9, "ann"), (book, 8, "ann")
    assert explore(seats, [[*calls]], invariant=nine_before_eight).states == 3
    with pytest.raises(InvariantBroken, match="after 1 call \\(8 came first\\)"):
        explore(seats, calls, invariant=nine_before_eight)


def test_first_calls_precede_and_effects_of_the_invariant_are_dropped() -> None:
    def try_to_book(machine: Sequential) -> bool:
        machine.call(book, 7, "eve")
        return 9 in machine.state

    search = explore(seats, [(book, 8, "bob")], invariant=try_to_book, first=[(book, 9, "ann")])
    assert search.states == 2
    with pytest.raises(InvariantBroken, match="does not hold before the first call"):
        explore(seats, [], invariant=try_to_book)


def test_too_many_states_and_malformed_calls_are_rejected() -> None:
    calls = [(book, number, "ann") for number in range(5)]
    with pytest.raises(BadValue, match="lead to more than 3 states"):
        explore(seats, calls, invariant=has_no_seats_of_eve, states_max=3)
    with pytest.raises(BadValue, match="a call is a tuple"):
        explore(seats, ["book"], invariant=has_no_seats_of_eve)  # type: ignore[list-item]
