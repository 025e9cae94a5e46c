"""Workload: the shares of Section 6.1 and the distributions of clauses 2.4.1 to 2.8.1."""

from collections import Counter
from functools import lru_cache
from itertools import islice
from typing import Any

import pytest

from creekdb.errors import BadValue
from creekdb.tpcc import (
    TRANSACTION_SHARES,
    Population,
    TransactionInput,
    TransactionInputs,
)
from creekdb.tpcc.population.random_values import LAST_NAME_NUMBERS, run_constants
from creekdb.tpcc.workload import UNUSED_ITEM, draw_constants
from tests.unit.tpcc.tpcc_database import datatype, is_uniform, population

COUNT = 40_000


def stream(client: int, warehouses: int = 5, seed: int = 1) -> TransactionInputs:
    return TransactionInputs(datatype("rows", warehouses), population(warehouses), seed, client)


@lru_cache(1)
def sampled_inputs() -> list[TransactionInput]:
    """Inputs of client 7 with five warehouses: home warehouse 3, terminal in district 2."""
    return list(islice(stream(7), COUNT))


def arguments(kind: str) -> list[tuple[Any, ...]]:
    return [each.operation.arguments for each in sampled_inputs() if each.kind == kind]


def is_share(count: int, total: int, share: float) -> bool:
    deviation: float = (total * share * (1 - share)) ** 0.5
    return abs(count - total * share) < 5 * deviation


def test_the_mix_has_the_shares_of_the_paper() -> None:
    kinds = Counter(each.kind for each in sampled_inputs())

    assert list(TRANSACTION_SHARES.items())[:2] == [("new_order", 45), ("payment", 43)]
    assert list(TRANSACTION_SHARES.items())[2:] == [
        ("delivery", 4),
        ("order_status", 4),
        ("stock_level", 4),
    ]
    for kind, share in TRANSACTION_SHARES.items():
        assert is_share(kinds[kind], COUNT, share / 100)


def test_payment_is_strong_and_the_others_are_weak() -> None:
    assert {(each.kind, each.is_strong) for each in sampled_inputs()} == {
        (kind, kind == "payment") for kind in TRANSACTION_SHARES
    }
    assert all(each.kind == each.operation.name for each in sampled_inputs())


def test_a_client_stays_at_its_home_warehouse() -> None:
    for each in sampled_inputs():
        assert each.operation.arguments[0] == 3
    homes = [(stream(client).warehouse, stream(client).district) for client in range(50)]
    assert sorted(homes) == [(w, d) for w in range(1, 6) for d in range(1, 11)]


def test_new_order_inputs_of_clause_2_4_1() -> None:
    orders = arguments("new_order")
    lines = [line for order in orders for line in order[3]]
    rolled_back = [order for order in orders if order[3][-1][0] == UNUSED_ITEM]

    assert is_uniform(Counter(order[1] for order in orders).values())
    assert {order[1] for order in orders} == set(range(1, 11))
    assert all(1 <= order[2] <= 3000 for order in orders)
    assert {len(order[3]) for order in orders} == set(range(5, 16))
    assert is_uniform(Counter(len(order[3]) for order in orders).values())
    assert is_share(len(rolled_back), len(orders), 0.01)
    assert sum(line[0] == UNUSED_ITEM for line in lines) == len(rolled_back)
    assert all(1 <= line[0] <= 100_000 for line in lines if line[0] != UNUSED_ITEM)
    assert is_share(sum(line[1] != 3 for line in lines), len(lines), 0.01)
    assert {line[1] for line in lines} == {1, 2, 3, 4, 5}
    assert is_uniform(Counter(line[1] for line in lines if line[1] != 3).values())
    assert {line[2] for line in lines} == set(range(1, 11))
    assert is_uniform(Counter(line[2] for line in lines).values())


def test_payment_inputs_of_clause_2_5_1() -> None:
    payments = arguments("payment")
    remote = [each for each in payments if each[2] != 3]
    at_home = [each for each in payments if each[2] == 3]
    by_name = [each for each in payments if isinstance(each[4], str)]

    assert is_share(len(remote), len(payments), 0.15)
    assert is_uniform(Counter(each[1] for each in payments).values())
    assert {each[1] for each in payments} == set(range(1, 11))
    assert {each[2] for each in remote} == {1, 2, 4, 5}
    assert is_uniform(Counter(each[2] for each in remote).values())
    # Clause 2.5.1.2: the district of a remote customer is drawn anew.
    assert is_uniform(Counter(each[3] for each in remote).values())
    assert {each[3] for each in remote} == set(range(1, 11))
    assert is_share(sum(each[3] == each[1] for each in remote), len(remote), 0.1)
    assert all(each[3] == each[1] for each in at_home)
    assert is_share(len(by_name), len(payments), 0.60)
    assert all(each[4] in LAST_NAME_NUMBERS for each in by_name)
    assert all(1_00 <= each[5] <= 5000_00 for each in payments)
    assert is_uniform(Counter((each[5] - 100) // 49_990 for each in payments).values())


def test_other_inputs_of_clauses_2_6_1_to_2_8_1() -> None:
    statuses = arguments("order_status")
    deliveries = arguments("delivery")
    levels = arguments("stock_level")

    assert is_share(sum(isinstance(each[2], str) for each in statuses), len(statuses), 0.60)
    assert {each[1] for each in statuses} == set(range(1, 11))
    assert is_uniform(Counter(each[1] for each in deliveries).values())
    assert {each[1] for each in deliveries} == set(range(1, 11))
    assert {each[1] for each in levels} == {2}
    assert {each[2] for each in levels} == set(range(10, 21))


def test_customers_are_distributed_by_nurand() -> None:
    """Compare with the exact distribution, reduced to a hundred groups."""
    run = draw_constants(1, population(5))
    customers = Counter(
        ((coarse | fine) + run.customer) % 3000 + 1
        for coarse in range(1024)
        for fine in range(1, 3001)
    )
    expected = [sum(customers[c] for c in range(low, low + 30)) for low in range(1, 3001, 30)]
    counts = Counter((order[2] - 1) // 30 for order in arguments("new_order"))
    total = sum(counts.values())
    statistic = 0.0
    for group, weight in enumerate(expected):
        mean = total * weight / (1024 * 3000)
        statistic += (counts[group] - mean) ** 2 / mean
    assert abs(statistic - 99) < 5 * (2 * 99) ** 0.5
    assert not is_uniform(counts[group] for group in range(100))


def test_all_clients_of_a_run_share_constants_that_fit_the_population() -> None:
    for seed in range(15):
        of_population = Population(seed, 1)
        run = draw_constants(seed, of_population)
        assert run.last_name in run_constants(of_population.last_name_constant)
        assert 0 <= run.customer <= 1023
        assert 0 <= run.item <= 8191
    assert len({draw_constants(seed, population(5)) for seed in range(50)}) == 50


def test_one_warehouse_implies_no_remote_access() -> None:
    for each in islice(stream(3, warehouses=1), 2000):
        used = each.operation.arguments
        if each.kind == "payment":
            assert used[2] == 1
        if each.kind == "new_order":
            assert {line[1] for line in used[3]} == {1}


def test_a_stream_depends_on_seed_and_client_only() -> None:
    first = list(islice(stream(7), 50))

    assert first == sampled_inputs()[:50]
    assert first != list(islice(stream(8), 50))
    assert first != list(islice(stream(7, seed=2), 50))


@pytest.mark.parametrize("client", [-1, "3", None])
def test_invalid_clients_are_rejected(client: Any) -> None:
    with pytest.raises(BadValue, match="must be an integer from 0"):
        stream(client)


def test_the_uniformity_test_can_fail() -> None:
    assert is_uniform([100, 104, 98, 95, 103])
    assert not is_uniform([100, 104, 98, 95, 203])
