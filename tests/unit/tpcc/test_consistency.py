"""The conditions of clause 3.3.2 hold where they should, and each can fail."""

from collections.abc import Callable
from functools import lru_cache

import pytest

from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key
from creekdb.tpcc import CONDITIONS, ConsistencyViolation, find_violations
from tests.unit.tpcc.terminal import Terminal, mixed


@lru_cache(4)
def used(layout: str, warehouses: int) -> dict[Key, object]:
    """What a few hundred transactions leave behind."""
    terminal = Terminal(layout, warehouses)
    for each in mixed(terminal, seed=5, count=400):
        terminal.apply(each.operation)
    return dict(terminal.state.overrides)


def opened(layout: str, warehouses: int = 1) -> Terminal:
    terminal = Terminal(layout, warehouses)
    for key, value in used(layout, warehouses).items():
        terminal.state.write(key, value)
    return terminal


@pytest.fixture(params=["rows", "fine"])
def terminal(request: pytest.FixtureRequest) -> Terminal:
    return opened(request.param)


def found(terminal: Terminal, only_touched: bool = True) -> list[ConsistencyViolation]:
    overrides = terminal.state.overrides
    return find_violations(terminal.base, overrides, only_touched=only_touched, limit=1000)


def violated(terminal: Terminal, only_touched: bool = True) -> set[str]:
    return {problem.condition for problem in found(terminal, only_touched)}


def test_all_conditions_hold_in_the_beginning() -> None:
    assert found(Terminal("rows", warehouses=1), only_touched=False) == []


@pytest.mark.parametrize("layout", ["rows", "fine"])
def test_all_conditions_hold_after_transactions(layout: str) -> None:
    terminal = opened(layout, warehouses=2)
    assert len(terminal.state.overrides) > 3000
    assert found(terminal) == []


def test_looking_at_everything_finds_the_same() -> None:
    terminal = opened("fine")
    terminal.set("o_ol_cnt", 1, "orders", 1, 4, 3001)
    terminal.set("c_balance", 7, "customer", 1, 2, 9)
    terminal.set("h_amount", 7, "history", 1, 3, 9, 1)

    touched = [(problem.condition, problem.row_key) for problem in found(terminal)]
    assert len(touched) == 7
    everything = found(terminal, only_touched=False)
    assert [(problem.condition, problem.row_key) for problem in everything] == touched


Fault = Callable[[Terminal], None]


def more_in_the_warehouse(terminal: Terminal) -> None:
    terminal.set("w_ytd", terminal.column("w_ytd", "warehouse", 1) + 1, "warehouse", 1)


def more_in_the_district(terminal: Terminal) -> None:
    terminal.set("d_ytd", terminal.column("d_ytd", "district", 1, 4) + 1, "district", 1, 4)


def a_number_is_skipped(terminal: Terminal) -> None:
    after = terminal.column("d_next_o_id", "district", 1, 4) + 1
    terminal.set("d_next_o_id", after, "district", 1, 4)


def a_new_order_in_the_middle_is_gone(terminal: Terminal) -> None:
    terminal.delete("new_order", 1, 4, 2900)


def the_newest_new_order_is_gone(terminal: Terminal) -> None:
    newest = terminal.column("d_next_o_id", "district", 1, 4) - 1
    terminal.delete("new_order", 1, 4, newest)


def a_line_too_many(terminal: Terminal) -> None:
    count = terminal.column("o_ol_cnt", "orders", 1, 4, 3000)
    terminal.insert("order_line", 1, 4, 3000, count + 1, like=(1, 4, 3000, count))


def a_line_too_few(terminal: Terminal) -> None:
    terminal.delete("order_line", 1, 4, 3000, 2)


def a_carrier_for_a_new_order(terminal: Terminal) -> None:
    terminal.set("o_carrier_id", 3, "orders", 1, 4, 3000)


def no_carrier_for_a_delivered_order(terminal: Terminal) -> None:
    terminal.set("o_carrier_id", None, "orders", 1, 4, 2000)


def a_line_delivered_before_its_order(terminal: Terminal) -> None:
    terminal.set("ol_delivery_d", 5, "order_line", 1, 4, 3000, 2)


def a_line_left_behind(terminal: Terminal) -> None:
    terminal.set("ol_delivery_d", None, "order_line", 1, 4, 2000, 2)


def a_payment_that_is_not_in_the_history(terminal: Terminal) -> None:
    terminal.delete("history", 1, 4, 99, 1)


def a_payment_at_another_district(terminal: Terminal) -> None:
    terminal.set("h_d_id", 5, "history", 1, 4, 99, 1)


def a_balance_of_nowhere(terminal: Terminal) -> None:
    terminal.set("c_balance", 1_000_000_00, "customer", 1, 4, 99)


def a_payment_counted_twice(terminal: Terminal) -> None:
    before = terminal.column("c_ytd_payment", "customer", 1, 4, 99)
    terminal.set("c_ytd_payment", before + 10_00, "customer", 1, 4, 99)


def a_delivery_that_is_not_counted(terminal: Terminal) -> None:
    order = terminal.column("o_c_id", "orders", 1, 4, 2101)
    before = terminal.column("c_delivery_cnt", "customer", 1, 4, order)
    terminal.set("c_delivery_cnt", before - 1, "customer", 1, 4, order)


def a_cheaper_line(terminal: Terminal) -> None:
    before = terminal.column("ol_amount", "order_line", 1, 4, 2101, 1)
    terminal.set("ol_amount", before + 1, "order_line", 1, 4, 2101, 1)


def an_old_last_order(terminal: Terminal) -> None:
    customer = terminal.column("o_c_id", "orders", 1, 4, 3001)
    terminal.state.write(("last_order", 1, 4, customer), 5)


def a_new_order_overlooked(terminal: Terminal) -> None:
    terminal.state.write(("oldest_new_order", 1, 4), 2990)


def an_order_is_gone(terminal: Terminal) -> None:
    terminal.delete("orders", 1, 4, 2950)


FAULTS: list[tuple[Fault, set[str]]] = [
    (more_in_the_warehouse, {"3.3.2.1", "3.3.2.8"}),
    (more_in_the_district, {"3.3.2.1", "3.3.2.9"}),
    (a_number_is_skipped, {"3.3.2.2"}),
    (the_newest_new_order_is_gone, {"3.3.2.2", "3.3.2.5", "3.3.2.11"}),
    (a_new_order_in_the_middle_is_gone, {"3.3.2.3", "3.3.2.5", "3.3.2.11"}),
    (a_line_too_many, {"3.3.2.4", "3.3.2.6"}),
    (a_line_too_few, {"3.3.2.4", "3.3.2.6"}),
    (a_carrier_for_a_new_order, {"3.3.2.5", "3.3.2.7"}),
    (no_carrier_for_a_delivered_order, {"3.3.2.5", "3.3.2.7"}),
    (a_line_delivered_before_its_order, {"3.3.2.7", "3.3.2.10", "3.3.2.12"}),
    (a_line_left_behind, {"3.3.2.7"}),
    (a_payment_that_is_not_in_the_history, {"3.3.2.8", "3.3.2.9", "3.3.2.10"}),
    (a_payment_at_another_district, {"3.3.2.9"}),
    (a_balance_of_nowhere, {"3.3.2.10", "3.3.2.12"}),
    (a_payment_counted_twice, {"3.3.2.12"}),
    (a_delivery_that_is_not_counted, {"3.3.2.11"}),
    (a_cheaper_line, {"3.3.2.10", "3.3.2.12"}),
    (an_old_last_order, {"index"}),
    (a_new_order_overlooked, {"index"}),
    (an_order_is_gone, {"3.3.2.4", "3.3.2.5", "3.3.2.6", "3.3.2.11"}),
]


@pytest.mark.parametrize(
    ("fault", "conditions"), FAULTS, ids=lambda each: getattr(each, "__name__", "")
)
def test_a_fault_violates_its_conditions_and_no_others(
    terminal: Terminal, fault: Fault, conditions: set[str]
) -> None:
    fault(terminal)

    assert violated(terminal) == conditions


def test_every_condition_is_violated_by_some_fault() -> None:
    assert set().union(*(conditions for _, conditions in FAULTS)) == set(CONDITIONS)


def test_a_fault_in_a_district_that_nobody_used_is_found_too() -> None:
    for fault, conditions in FAULTS:
        terminal = Terminal("fine", warehouses=1)
        if fault in (an_old_last_order, a_delivery_that_is_not_counted, a_cheaper_line):
            continue  # they plant it in what transactions wrote
        fault(terminal)
        assert violated(terminal) == conditions, fault


def test_a_problem_tells_where_and_what(terminal: Terminal) -> None:
    terminal.set("w_ytd", 5, "warehouse", 1)
    first = found(terminal)[0]

    districts = sum(terminal.column("d_ytd", "district", 1, d) for d in range(1, 11))
    assert str(first) == (
        f"condition 3.3.2.1 at ('warehouse', 1): W_YTD is 5, and the sum of D_YTD is {districts}"
    )


def test_the_number_of_problems_is_bounded(terminal: Terminal) -> None:
    for c in range(1, 200):
        terminal.set("c_balance", 5, "customer", 1, 4, c)

    assert len(find_violations(terminal.base, terminal.state.overrides, only_touched=True)) == 20


def test_a_deleted_register_is_absent_and_not_as_in_the_beginning() -> None:
    terminal = Terminal("rows", warehouses=1)
    terminal.call("delivery", 1, 3)
    overrides = dict(terminal.state.overrides)

    assert overrides["new_order", 1, 1, 2101] is ABSENT
    assert find_violations(terminal.base, overrides, only_touched=True) == []
    del overrides["new_order", 1, 1, 2101]
    assert {
        each.condition for each in find_violations(terminal.base, overrides, only_touched=True)
    } == {*("3.3.2.5", "3.3.2.11", "index")}
