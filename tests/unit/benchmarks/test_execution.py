"""What is compared does the same work."""

import pytest

from benchmarks import shop
from benchmarks.execution import CASES, Bare, Case, Versioned, requests
from creekdb.protocol.values import Key


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_the_version_store_and_the_bare_dict_give_the_same_answers_and_end_alike(
    case: Case,
) -> None:
    first = case.before(100) if case.before is not None else []
    asked = requests([*first, *case.calls(100)])
    versioned, bare = Versioned(shop.population()), Bare(shop.population(), case.in_order)
    measured = case.measured(shop.population(), case.in_order)
    for subject in (versioned, bare, measured):
        subject.run(asked)
    versioned.settle_all()

    assert versioned.answers == bare.answers == measured.answers
    assert len([each for each in bare.answers if each]) > 50
    assert dict(versioned.store.stable_items()) == dict(bare.state)


def test_a_new_order_accesses_some_thirty_registers() -> None:
    count = [0]

    class Counting(shop.BareTransaction):
        def get(self, key: Key, default: object = None) -> object:
            count[0] += 1
            return super().get(key, default)

        def put(self, key: Key, value: object) -> None:
            count[0] += 1
            super().put(key, value)

    state = shop.population()
    orders = shop.new_orders(200)
    for number, (_, arguments) in enumerate(orders):
        shop.new_order(Counting(state, number), *arguments)  # type: ignore[arg-type]
    assert 20 <= count[0] / len(orders) <= 40
