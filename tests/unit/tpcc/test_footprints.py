"""Footprints of the five transactions in all layouts."""

from itertools import product
from typing import Any

import pytest

from creekdb.execution.footprint import Footprint
from creekdb.tpcc.layout import LAYOUTS
from tests.unit.tpcc.tpcc_database import datatype

PAYMENT = (1, 2, 1, 2, 7, 100)
NEW_ORDER = (1, 2, 7, ((5, 1, 1), (6, 1, 2)))


def footprint(layout: str, name: str, *arguments: Any) -> Footprint:
    tpcc = datatype(layout)
    found = tpcc.footprint(tpcc.call(name, *arguments))
    assert found is not None
    return found


def can_depend(later: Footprint, earlier: Footprint) -> bool:
    """True if `earlier` may write what `later` touches."""
    return any(
        one[: len(other)] == other[: len(one)]
        for one, other in product((*later.touches, *later.reads), earlier.touches)
        if isinstance(one, tuple) and isinstance(other, tuple)
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_transactions_of_other_warehouses_are_disjoint(layout: str) -> None:
    first = [
        footprint(layout, "payment", *PAYMENT),
        footprint(layout, "new_order", *NEW_ORDER),
        footprint(layout, "delivery", 1, 3),
    ]
    second = [
        footprint(layout, "payment", 2, 2, 2, 2, "BARBARBAR", 100),
        footprint(layout, "new_order", 2, 2, 7, ((5, 2, 1),)),
        footprint(layout, "delivery", 2, 3),
        footprint(layout, "order_status", 2, 2, 7),
        footprint(layout, "stock_level", 2, 2, 15),
    ]
    for one, other in product(first, second):
        assert not can_depend(one, other)
        assert not can_depend(other, one)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_remote_customers_and_suppliers_overlap(layout: str) -> None:
    delivery = footprint(layout, "delivery", 2, 3)
    remote_payment = footprint(layout, "payment", 1, 2, 2, 2, 7, 100)
    remote_order = footprint(layout, "new_order", 1, 2, 7, ((5, 2, 1),))

    assert can_depend(remote_payment, delivery)
    assert can_depend(footprint(layout, "new_order", 2, 1, 7, ((5, 2, 1),)), remote_order)
    assert can_depend(footprint(layout, "stock_level", 2, 9, 15), remote_order)
    assert not can_depend(footprint(layout, "payment", 2, 1, 2, 1, 7, 100), remote_order)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_new_orders_of_other_districts_do_not_share_items(layout: str) -> None:
    one = footprint(layout, "new_order", 1, 2, 7, ((5, 1, 1),))
    other = footprint(layout, "new_order", 2, 3, 7, ((5, 2, 1),))

    assert (("sql", "item") if layout == "sql" else ("item",)) in one.reads
    assert not can_depend(one, other)
