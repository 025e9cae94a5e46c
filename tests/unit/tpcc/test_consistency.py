"""The conditions of clause 3.3.2 hold in valid states, and each of them can fail."""

from collections.abc import Callable
from functools import lru_cache

import pytest

from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key
from creekdb.tpcc import CONDITIONS, ConsistencyViolation, find_violations
from tests.unit.tpcc.tpcc_database import TpccDatabase, transaction_mix


@lru_cache(4)
def overrides_after_mix(layout: str, warehouses: int) -> dict[Key, object]:
    """Return the registers that differ after a few hundred transactions."""
    database = TpccDatabase(layout, warehouses)
    for each in transaction_mix(database, seed=5, count=400):
        database.apply(each.operation)
    return dict(database.overrides)


def database_after_mix(layout: str, warehouses: int = 1) -> TpccDatabase:
    database = TpccDatabase(layout, warehouses)
    for key, value in overrides_after_mix(layout, warehouses).items():
        database.overrides[key] = value
    return database


@pytest.fixture(params=["rows", "fine", "sql"])
def database(request: pytest.FixtureRequest) -> TpccDatabase:
    return database_after_mix(request.param)


def violations(database: TpccDatabase, only_touched: bool = True) -> list[ConsistencyViolation]:
    overrides = database.overrides
    return find_violations(database.base, overrides, only_touched=only_touched, limit=1000)


def violated_conditions(database: TpccDatabase, only_touched: bool = True) -> set[str]:
    return {violation.condition for violation in violations(database, only_touched)}


def test_all_conditions_hold_initially() -> None:
    assert violations(TpccDatabase("rows", warehouses=1), only_touched=False) == []


@pytest.mark.parametrize("layout", ["rows", "fine", "sql"])
def test_all_conditions_hold_after_transactions(layout: str) -> None:
    database = database_after_mix(layout, warehouses=2)
    assert len(database.overrides) > 3000
    assert violations(database) == []


def test_a_full_check_finds_the_same_violations_as_a_check_of_touched_rows() -> None:
    database = database_after_mix("fine")
    database.set("o_ol_cnt", 1, "orders", 1, 4, 3001)
    database.set("c_balance", 7, "customer", 1, 2, 9)
    database.set("h_amount", 7, "history", 1, 3, 9, 1)

    touched = [(violation.condition, violation.row_key) for violation in violations(database)]
    assert len(touched) == 7
    full = violations(database, only_touched=False)
    assert [(violation.condition, violation.row_key) for violation in full] == touched


Fault = Callable[[TpccDatabase], None]


def excess_w_ytd(database: TpccDatabase) -> None:
    database.set("w_ytd", database.column("w_ytd", "warehouse", 1) + 1, "warehouse", 1)


def excess_d_ytd(database: TpccDatabase) -> None:
    database.set("d_ytd", database.column("d_ytd", "district", 1, 4) + 1, "district", 1, 4)


def skipped_order_number(database: TpccDatabase) -> None:
    after = database.column("d_next_o_id", "district", 1, 4) + 1
    database.set("d_next_o_id", after, "district", 1, 4)


def missing_new_order_in_the_middle(database: TpccDatabase) -> None:
    database.delete("new_order", 1, 4, 2900)


def missing_newest_new_order(database: TpccDatabase) -> None:
    newest = database.column("d_next_o_id", "district", 1, 4) - 1
    database.delete("new_order", 1, 4, newest)


def extra_order_line(database: TpccDatabase) -> None:
    count = database.column("o_ol_cnt", "orders", 1, 4, 3000)
    database.insert("order_line", 1, 4, 3000, count + 1, like=(1, 4, 3000, count))


def missing_order_line(database: TpccDatabase) -> None:
    database.delete("order_line", 1, 4, 3000, 2)


def new_order_with_carrier(database: TpccDatabase) -> None:
    database.set("o_carrier_id", 3, "orders", 1, 4, 3000)


def delivered_order_without_carrier(database: TpccDatabase) -> None:
    database.set("o_carrier_id", None, "orders", 1, 4, 2000)


def line_delivered_before_its_order(database: TpccDatabase) -> None:
    database.set("ol_delivery_d", 5, "order_line", 1, 4, 3000, 2)


def undelivered_line_of_a_delivered_order(database: TpccDatabase) -> None:
    database.set("ol_delivery_d", None, "order_line", 1, 4, 2000, 2)


def payment_missing_in_history(database: TpccDatabase) -> None:
    database.delete("history", 1, 4, 99, 1)


def payment_at_another_district(database: TpccDatabase) -> None:
    database.set("h_d_id", 5, "history", 1, 4, 99, 1)


def wrong_balance(database: TpccDatabase) -> None:
    database.set("c_balance", 1_000_000_00, "customer", 1, 4, 99)


def payment_counted_twice(database: TpccDatabase) -> None:
    before = database.column("c_ytd_payment", "customer", 1, 4, 99)
    database.set("c_ytd_payment", before + 10_00, "customer", 1, 4, 99)


def uncounted_delivery(database: TpccDatabase) -> None:
    order = database.column("o_c_id", "orders", 1, 4, 2101)
    before = database.column("c_delivery_cnt", "customer", 1, 4, order)
    database.set("c_delivery_cnt", before - 1, "customer", 1, 4, order)


def wrong_line_amount(database: TpccDatabase) -> None:
    before = database.column("ol_amount", "order_line", 1, 4, 2101, 1)
    database.set("ol_amount", before + 1, "order_line", 1, 4, 2101, 1)


def outdated_last_order_index(database: TpccDatabase) -> None:
    customer = database.column("o_c_id", "orders", 1, 4, 3001)
    if database.layout == "sql":
        row = (1, 4, 3001)
        database.overrides["sql.index", "orders", "last_order", 1, 4, customer, *row] = ABSENT
    else:
        database.overrides["last_order", 1, 4, customer] = 5


def wrong_oldest_new_order_index(database: TpccDatabase) -> None:
    if database.layout == "sql":
        database.overrides["sql", "oldest_new_order", 1, 4] = (1, 4, 2990)
    else:
        database.overrides["oldest_new_order", 1, 4] = 2990


def missing_order(database: TpccDatabase) -> None:
    database.delete("orders", 1, 4, 2950)


FAULTS: list[tuple[Fault, set[str]]] = [
    (excess_w_ytd, {"3.3.2.1", "3.3.2.8"}),
    (excess_d_ytd, {"3.3.2.1", "3.3.2.9"}),
    (skipped_order_number, {"3.3.2.2"}),
    (missing_newest_new_order, {"3.3.2.2", "3.3.2.5", "3.3.2.11"}),
    (missing_new_order_in_the_middle, {"3.3.2.3", "3.3.2.5", "3.3.2.11"}),
    (extra_order_line, {"3.3.2.4", "3.3.2.6"}),
    (missing_order_line, {"3.3.2.4", "3.3.2.6"}),
    (new_order_with_carrier, {"3.3.2.5", "3.3.2.7"}),
    (delivered_order_without_carrier, {"3.3.2.5", "3.3.2.7"}),
    (line_delivered_before_its_order, {"3.3.2.7", "3.3.2.10", "3.3.2.12"}),
    (undelivered_line_of_a_delivered_order, {"3.3.2.7"}),
    (payment_missing_in_history, {"3.3.2.8", "3.3.2.9", "3.3.2.10"}),
    (payment_at_another_district, {"3.3.2.9"}),
    (wrong_balance, {"3.3.2.10", "3.3.2.12"}),
    (payment_counted_twice, {"3.3.2.12"}),
    (uncounted_delivery, {"3.3.2.11"}),
    (wrong_line_amount, {"3.3.2.10", "3.3.2.12"}),
    (outdated_last_order_index, {"index"}),
    (wrong_oldest_new_order_index, {"index"}),
    (missing_order, {"3.3.2.4", "3.3.2.5", "3.3.2.6", "3.3.2.11"}),
]


@pytest.mark.parametrize(
    ("fault", "conditions"), FAULTS, ids=lambda each: getattr(each, "__name__", "")
)
def test_a_fault_violates_its_conditions_and_no_others(
    database: TpccDatabase, fault: Fault, conditions: set[str]
) -> None:
    fault(database)

    assert violated_conditions(database) == conditions


def test_every_condition_is_violated_by_some_fault() -> None:
    assert set().union(*(conditions for _, conditions in FAULTS)) == set(CONDITIONS)


def test_a_fault_in_an_unused_district_is_found() -> None:
    for fault, conditions in FAULTS:
        database = TpccDatabase("fine", warehouses=1)
        if fault in (outdated_last_order_index, uncounted_delivery, wrong_line_amount):
            continue  # these faults need rows that transactions wrote
        fault(database)
        assert violated_conditions(database) == conditions, fault


def test_a_violation_names_its_condition_row_and_values(database: TpccDatabase) -> None:
    database.set("w_ytd", 5, "warehouse", 1)
    first = violations(database)[0]

    districts = sum(database.column("d_ytd", "district", 1, d) for d in range(1, 11))
    assert str(first) == (
        f"condition 3.3.2.1 at ('warehouse', 1): W_YTD is 5, and the sum of D_YTD is {districts}"
    )


def test_the_number_of_violations_is_bounded(database: TpccDatabase) -> None:
    for c in range(1, 200):
        database.set("c_balance", 5, "customer", 1, 4, c)

    assert len(find_violations(database.base, database.overrides, only_touched=True)) == 20


def test_a_deleted_register_does_not_have_its_initial_value() -> None:
    database = TpccDatabase("rows", warehouses=1)
    database.call("delivery", 1, 3)
    overrides = dict(database.overrides)

    assert overrides["new_order", 1, 1, 2101] is ABSENT
    assert find_violations(database.base, overrides, only_touched=True) == []
    del overrides["new_order", 1, 1, 2101]
    assert {
        each.condition for each in find_violations(database.base, overrides, only_touched=True)
    } == {*("3.3.2.5", "3.3.2.11", "index")}
