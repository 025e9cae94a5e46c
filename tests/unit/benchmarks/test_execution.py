"""The compared subjects perform the same work."""

import pytest

from benchmarks import shop
from benchmarks.execution import CASES, Case, DictSubject, VersionStoreSubject, requests
from creekdb.protocol.values import Key


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_all_subjects_return_the_same_responses_and_end_in_the_same_state(
    case: Case,
) -> None:
    first = case.before(100) if case.before is not None else []
    batch = requests([*first, *case.calls(100)])
    on_store, on_dict = (
        VersionStoreSubject(shop.population()),
        DictSubject(shop.population(), case.sorted_keys),
    )
    measured = case.measured(shop.population(), case.sorted_keys)
    for subject in (on_store, on_dict, measured):
        subject.run(batch)
    on_store.stabilise_all()

    assert on_store.responses == on_dict.responses == measured.responses
    assert len([each for each in on_dict.responses if each]) > 50
    assert dict(on_store.store.table.stable_items()) == dict(on_dict.state)


def test_a_new_order_accesses_some_thirty_registers() -> None:
    count = [0]

    class CountingTransaction(shop.BareTransaction):
        def get(self, key: Key, default: object = None) -> object:
            count[0] += 1
            return super().get(key, default)

        def put(self, key: Key, value: object) -> None:
            count[0] += 1
            super().put(key, value)

    state = shop.population()
    orders = shop.new_orders(200)
    for number, (_, arguments) in enumerate(orders):
        shop.new_order(CountingTransaction(state, number), *arguments)  # type: ignore[arg-type]
    assert 20 <= count[0] / len(orders) <= 40
