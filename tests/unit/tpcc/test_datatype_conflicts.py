"""Conflicts between transactions: one reads a register that the other writes or adds to."""

from typing import Any

import pytest

from creekdb.execution.keys import collation_key
from creekdb.execution.mvcc.entry import RequestEntry, tentative_position
from creekdb.execution.mvcc.snapshot import StoreSnapshot
from creekdb.execution.mvcc.version_store import VersionStore
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Request
from creekdb.protocol.values import Key
from tests.unit.tpcc.tpcc_database import base, datatype

NEW_ORDER = ("new_order", 1, 4, 77, ((11, 1, 3), (22, 1, 5)))
OTHER_ITEMS = ("new_order", 1, 5, 77, ((33, 1, 3), (44, 1, 5)))
SAME_ITEM = ("new_order", 1, 5, 77, ((11, 1, 3), (44, 1, 5)))
PAYMENT = ("payment", 1, 4, 1, 4, 99, 5_00)
OTHER_CUSTOMER = ("payment", 1, 4, 1, 4, 98, 5_00)
OTHER_WAREHOUSE = ("payment", 2, 4, 2, 4, 99, 5_00)
PAYMENT_AT_ANOTHER_WAREHOUSE = ("payment", 2, 4, 1, 4, 99, 5_00)
DELIVERY = ("delivery", 1, 3)
ORDER_STATUS = ("order_status", 1, 4, 77)
STATUS_OF_OTHER_CUSTOMER = ("order_status", 1, 4, 78)
STOCK_LEVEL = ("stock_level", 1, 4, 15)
STOCK_LEVEL_OF_OTHER_DISTRICT = ("stock_level", 1, 5, 15)


def execute(layout: str, call: tuple[Any, ...]) -> tuple[StoreSnapshot, set[Key]]:
    """Return the reads of a call, and the registers that it writes or adds to."""
    request = Request(5, Dot(0, 1), datatype(layout).call(*call), strong=False)
    entry = RequestEntry(request, tentative_position(request))
    snapshot = VersionStore(base(layout)).snapshot(entry.position)
    execution = datatype(layout).run(request, snapshot)
    assert execution.outcome.error is None
    if layout != "sql":
        assert snapshot.scanned_ranges == []  # transactions do not scan
    return snapshot, {*execution.writes, *execution.blind_adds}


def conflicts(layout: str, earlier: tuple[Any, ...], later: tuple[Any, ...]) -> bool:
    _, written = execute(layout, earlier)
    snapshot, _ = execute(layout, later)
    return any(
        key in snapshot.reads
        or key in snapshot.base_reads
        or any(each.start <= collation_key(key) < each.stop for each in snapshot.scanned_ranges)
        for key in written
    )


@pytest.mark.parametrize(
    ("earlier", "later", "rows", "fine"),
    [
        (PAYMENT, OTHER_CUSTOMER, True, False),
        (PAYMENT, PAYMENT, True, True),
        (PAYMENT, OTHER_WAREHOUSE, False, False),
        (PAYMENT, PAYMENT_AT_ANOTHER_WAREHOUSE, True, True),
        (PAYMENT, NEW_ORDER, True, False),
        (PAYMENT, STOCK_LEVEL, True, False),
        (PAYMENT, DELIVERY, False, False),
        (NEW_ORDER, PAYMENT, True, False),
        (NEW_ORDER, NEW_ORDER, True, True),
        (NEW_ORDER, OTHER_ITEMS, False, False),
        (NEW_ORDER, SAME_ITEM, True, True),
        (NEW_ORDER, DELIVERY, False, False),
        (NEW_ORDER, ORDER_STATUS, True, True),
        (NEW_ORDER, STATUS_OF_OTHER_CUSTOMER, False, False),
        (NEW_ORDER, STOCK_LEVEL, True, True),
        (NEW_ORDER, STOCK_LEVEL_OF_OTHER_DISTRICT, False, False),
        (DELIVERY, DELIVERY, True, True),
        (DELIVERY, NEW_ORDER, False, False),
        (DELIVERY, STOCK_LEVEL, False, False),
    ],
)
def test_transactions_conflict_as_their_layout_implies(
    earlier: tuple[Any, ...], later: tuple[Any, ...], rows: bool, fine: bool
) -> None:
    assert conflicts("rows", earlier, later) is rows
    assert conflicts("sql", earlier, later) is rows
    assert conflicts("fine", earlier, later) is fine
