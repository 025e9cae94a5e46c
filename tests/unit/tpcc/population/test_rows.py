"""The initial data has the cardinalities and distributions of clause 4.3.3.1."""

import string
from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from creekdb.errors import BadValue
from creekdb.tpcc import Population
from creekdb.tpcc.population.random_values import LAST_NAMES, splitmix64, splitmix64_halves
from creekdb.tpcc.schema import (
    C_CREDIT,
    C_FIRST,
    C_LAST,
    CUSTOMERS,
    DELIVERED,
    DISTRICTS,
    ITEMS,
    O_C_ID,
    O_CARRIER_ID,
    O_OL_CNT,
    TABLES,
)
from tests.unit.tpcc.tpcc_database import is_uniform, population

ALPHANUMERIC = set(string.ascii_letters + string.digits)


def row_dict(table: str, *key: int) -> dict[str, Any]:
    row = getattr(population(), table)(*key)
    return dict(zip(TABLES[table].columns, row, strict=True))


def is_text(text: str, low: int, high: int) -> bool:
    return low <= len(text) <= high and set(text) <= ALPHANUMERIC


def is_zip(text: str) -> bool:
    return len(text) == 9 and text.isdigit() and text.endswith("11111")


def is_state(text: str) -> bool:
    return len(text) == 2 and text.isupper()


def test_items_follow_the_specification() -> None:
    rows = [row_dict("item", i) for i in range(1, ITEMS + 1)]

    assert all(1 <= row["i_im_id"] <= 10_000 for row in rows)
    assert all(1_00 <= row["i_price"] <= 100_00 for row in rows)
    assert all(is_text(row["i_name"], 14, 24) for row in rows)
    assert all(is_text(row["i_data"], 26, 50) for row in rows)
    assert sum("ORIGINAL" in row["i_data"] for row in rows) == ITEMS // 10
    assert is_uniform(Counter(row["i_price"] for row in rows).values())
    assert is_uniform(Counter(row["i_im_id"] for row in rows).values())
    assert is_uniform(Counter(len(row["i_name"]) for row in rows).values())
    assert is_uniform(Counter(len(row["i_data"]) for row in rows).values())


def test_the_original_mark_has_a_uniform_position() -> None:
    data = [row_dict("item", i)["i_data"] for i in range(1, ITEMS + 1)]
    marked = [text for text in data if "ORIGINAL" in text and len(text) == 30]

    assert len(marked) > 300
    assert {text.index("ORIGINAL") for text in marked} == set(range(30 - 8 + 1))
    assert is_uniform(Counter(text.index("ORIGINAL") for text in marked).values())


def test_marked_items_are_uniform_among_ten() -> None:
    marked = [i for i in range(1, ITEMS + 1) if "ORIGINAL" in row_dict("item", i)["i_data"]]

    assert is_uniform(Counter(i % 10 for i in marked).values())


def test_warehouses_and_districts_follow_the_specification() -> None:
    for w in (1, 2):
        warehouse = row_dict("warehouse", w)
        assert is_text(warehouse["w_name"], 6, 10)
        for column in ("w_street_1", "w_street_2", "w_city"):
            assert is_text(warehouse[column], 10, 20)
        assert is_state(warehouse["w_state"])
        assert is_zip(warehouse["w_zip"])
        assert 0 <= warehouse["w_tax"] <= 2000
        assert warehouse["w_ytd"] == 300_000_00
        for d in range(1, DISTRICTS + 1):
            district = row_dict("district", w, d)
            assert is_text(district["d_name"], 6, 10)
            for column in ("d_street_1", "d_street_2", "d_city"):
                assert is_text(district[column], 10, 20)
            assert is_state(district["d_state"])
            assert is_zip(district["d_zip"])
            assert 0 <= district["d_tax"] <= 2000
            assert (district["d_ytd"], district["d_next_o_id"]) == (30_000_00, 3_001)


def test_stock_follows_the_specification() -> None:
    rows = [row_dict("stock", 2, i) for i in range(1, ITEMS + 1)]

    assert all(10 <= row["s_quantity"] <= 100 for row in rows)
    assert all(is_text(row["s_dist"], 240, 240) for row in rows)
    assert all(is_text(row["s_data"], 26, 50) for row in rows)
    assert all(row["s_ytd"] == row["s_order_cnt"] == row["s_remote_cnt"] == 0 for row in rows)
    assert sum("ORIGINAL" in row["s_data"] for row in rows) == ITEMS // 10
    assert is_uniform(Counter(row["s_quantity"] for row in rows).values())


def test_customers_follow_the_specification() -> None:
    rows = [row_dict("customer", 1, 3, c) for c in range(1, CUSTOMERS + 1)]

    for row in rows:
        assert is_text(row["c_first"], 8, 16)
        for column in ("c_street_1", "c_street_2", "c_city"):
            assert is_text(row[column], 10, 20)
        assert is_state(row["c_state"])
        assert is_zip(row["c_zip"])
        assert len(row["c_phone"]) == 16
        assert row["c_phone"].isdigit()
        assert row["c_middle"] == "OE"
        assert row["c_credit_lim"] == 50_000_00
        assert 0 <= row["c_discount"] <= 5000
        assert is_text(row["c_data"], 300, 500)
        assert (row["c_balance"], row["c_ytd_payment"]) == (-10_00, 10_00)
        assert (row["c_payment_cnt"], row["c_delivery_cnt"]) == (1, 0)
    assert Counter(row["c_credit"] for row in rows) == {"GC": 2700, "BC": 300}
    assert is_uniform(
        Counter(row["c_discount"] // 100 for row in rows if row["c_discount"] < 5000).values()
    )


def test_the_first_thousand_customers_have_all_last_names_in_order() -> None:
    names = [row_dict("customer", 2, 10, c)["c_last"] for c in range(1, 1001)]

    assert names == list(LAST_NAMES)


def test_the_other_last_names_are_drawn_with_nurand() -> None:
    """Compare with the exact distribution of NURand(255, 0, 999), which is computable."""
    constant = population().last_name_constant
    expected = Counter(
        ((coarse | fine) + constant) % 1000 for coarse in range(256) for fine in range(1000)
    )
    drawn = Counter[int]()
    for w in (1, 2):
        for d in range(1, DISTRICTS + 1):
            for c in range(1001, CUSTOMERS + 1):
                drawn[LAST_NAMES.index(row_dict("customer", w, d, c)["c_last"])] += 1

    total = sum(drawn.values())
    statistic = 0.0
    for number, weight in expected.items():
        mean = total * weight / 256_000
        statistic += (drawn[number] - mean) ** 2 / mean
    assert set(drawn) <= set(expected)
    assert abs(statistic - len(expected)) < 5 * (2 * len(expected)) ** 0.5


def test_namesakes_are_ordered_by_first_name() -> None:
    customers = {c: population().customer(1, 7, c) for c in range(1, CUSTOMERS + 1)}
    for name in (*LAST_NAMES[::37], "BARBARBAR"):
        actual = population().customers_named(1, 7, name)
        expected_customers = [c for c, row in customers.items() if row[C_LAST] == name]
        assert list(actual) == sorted(expected_customers, key=lambda c: (customers[c][C_FIRST], c))
    assert sum(len(population().customers_named(1, 7, name)) for name in LAST_NAMES) == CUSTOMERS


def test_a_district_is_sorted_once_for_any_number_of_lookups() -> None:
    fresh = Population(3, 2)
    for name in LAST_NAMES:
        fresh.customers_named(1, 7, name)
        fresh.last_order(1, 7, 5)
    fresh.customers_named(1, 8, "BARBARBAR")

    sorts = (fresh.order_permutation.cache_info(), fresh.last_name_index.cache_info())
    assert sum(each.misses for each in sorts) == 3


def test_each_customer_has_one_payment_in_the_history() -> None:
    for c in range(1, CUSTOMERS + 1, 17):
        row = row_dict("history", 2, 4, c, 1)
        assert (row["h_w_id"], row["h_d_id"], row["h_amount"]) == (2, 4, 10_00)
        assert is_text(row["h_data"], 12, 24)


def test_orders_of_a_district_are_a_permutation_of_its_customers() -> None:
    seen = []
    for w, d in ((1, 1), (1, 2), (2, 1)):
        customers = [population().orders(w, d, o)[O_C_ID] for o in range(1, CUSTOMERS + 1)]
        assert sorted(customers) == list(range(1, CUSTOMERS + 1))
        for o, c in enumerate(customers, 1):
            assert population().last_order(w, d, c) == o
        seen.append(customers)
    assert seen[0] != seen[1] != seen[2] != seen[0]


def test_a_permutation_has_about_one_fixed_point_and_no_trend() -> None:
    fixed, rising = 0, 0
    for w in (1, 2):
        for d in range(1, DISTRICTS + 1):
            customers = [population().orders(w, d, o)[O_C_ID] for o in range(1, CUSTOMERS + 1)]
            fixed += sum(o == c for o, c in enumerate(customers, 1))
            rising += sum(a < b for a, b in pairwise(customers))
    assert 5 <= fixed <= 40
    assert abs(rising - 20 * 1499.5) < 5 * (20 * 250) ** 0.5


def test_orders_and_lines_follow_the_specification() -> None:
    orders = [population().orders(1, 5, o) for o in range(1, CUSTOMERS + 1)]
    amounts = []

    assert all(5 <= order[O_OL_CNT] <= 15 for order in orders)
    assert is_uniform(Counter(order[O_OL_CNT] for order in orders).values())
    assert is_uniform(Counter(order[O_CARRIER_ID] for order in orders[:DELIVERED]).values())
    assert {order[O_CARRIER_ID] for order in orders[:DELIVERED]} == set(range(1, 11))
    assert {order[O_CARRIER_ID] for order in orders[DELIVERED:]} == {None}
    for o, order in enumerate(orders, 1):
        for n in range(1, order[O_OL_CNT] + 1):
            line = row_dict("order_line", 1, 5, o, n)
            assert 1 <= line["ol_i_id"] <= ITEMS
            assert (line["ol_supply_w_id"], line["ol_quantity"]) == (1, 5)
            assert is_text(line["ol_dist_info"], 24, 24)
            if o <= DELIVERED:
                assert (line["ol_amount"], line["ol_delivery_d"]) == (0, order[1])
            else:
                assert line["ol_delivery_d"] is None
                amounts.append(line["ol_amount"])
    assert all(1 <= amount <= 9999_99 for amount in amounts)
    assert is_uniform(Counter(amount // 10_000 for amount in amounts if amount < 990_000).values())


@pytest.mark.parametrize("bits", [1, 31, 33, 63, 64, 65, 100, 130])
def test_words_computed_in_halves_are_equal(bits: int) -> None:
    random = Random(bits)
    numbers = [0, 2**bits - 1, *(random.getrandbits(bits) for _ in range(200))]
    words = [reference_splitmix64(number) for number in numbers]

    assert [splitmix64_halves(number) for number in numbers] == words
    assert [splitmix64(number) for number in numbers] == words


def reference_splitmix64(number: int) -> int:
    """Return the SplitMix64 word as its definition computes it."""
    number &= 2**64 - 1
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & 2**64 - 1
    number = (number ^ number >> 27) * 0x94D049BB133111EB & 2**64 - 1
    return number ^ number >> 31


def test_seeds_and_rows_differ() -> None:
    other = Population(21, 2)

    assert other.customer(1, 1, 1) != population().customer(1, 1, 1)
    assert population().customer(1, 1, 1) != population().customer(1, 2, 1)
    assert population().stock(1, 1) != population().stock(2, 1)
    assert len({Population(seed, 1).item(5) for seed in range(20)}) == 20


def test_rows_do_not_depend_on_the_number_of_warehouses() -> None:
    many = Population(20, 5000)

    assert many.stock(2, 77) == population().stock(2, 77)
    assert many.orders(2, 3, 2500) == population().orders(2, 3, 2500)
    assert many.customer(5000, 10, 3000)[C_CREDIT] in ("GC", "BC")


@pytest.mark.parametrize("warehouses", [0, -1, 100_001, True, "5"])
def test_invalid_numbers_of_warehouses_are_rejected(warehouses: Any) -> None:
    with pytest.raises(BadValue, match="must be from 1 to 100000"):
        Population(1, warehouses)


@pytest.mark.parametrize("seed", [-1, 2**63, None])
def test_invalid_seeds_are_rejected(seed: Any) -> None:
    with pytest.raises(BadValue, match="must be an integer from 0 to"):
        Population(seed, 1)
