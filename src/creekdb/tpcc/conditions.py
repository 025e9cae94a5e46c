"""TPC-C's consistency conditions (clause 3.3.2) as a check of a replica's state.

The twelve conditions are those of the specification, but for the eleventh: as it stands there
(orders minus new orders are 2,100 in every district) it holds for the population only, since every
delivery takes away a new order. Here it says 2,100 more than the deliveries that the district's
customers have counted, which is the same in the beginning and stays true.

One more condition, `index`, is ours: the registers by which rows are found tell the truth.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from creekdb.protocol.values import Key
from creekdb.tpcc.base import PopulationBase
from creekdb.tpcc.census import Census, CustomerFacts, District, DistrictFacts, OrderFacts
from creekdb.tpcc.schema import DELIVERED, DISTRICTS

CONDITIONS: Final = (*(f"3.3.2.{number}" for number in range(1, 13)), "index")
PROBLEMS_MAX: Final = 20


class Problem(NamedTuple):
    condition: str
    """One of `CONDITIONS`."""
    where: tuple[str | int, ...]
    """The key of the row that it is about."""
    message: str

    def __str__(self) -> str:
        return f"condition {self.condition} at {self.where}: {self.message}"


def problems(
    base: PopulationBase,
    overrides: Mapping[Key, Any],
    *,
    only_touched: bool = False,
    limit: int = PROBLEMS_MAX,
) -> list[Problem]:
    """What is wrong with the state: at most `limit` problems, none if all conditions hold.

    The state is `base` with the registers in `overrides`, where `ABSENT` stands for a deleted one.
    With `only_touched`, rows that no override belongs to are taken to be in order.
    """
    return list(islice(_judge(Census(base, overrides, only_touched)), limit))


def _judge(census: Census) -> Iterator[Problem]:
    for district, facts in census.districts():
        yield from _judge_district(district, facts)
        for number, order in facts.orders.items():
            yield from _judge_order(("orders", *district, number), order)
        for number, customer in facts.customers.items():
            yield from _judge_customer(("customer", *district, number), customer)
    for w in census.warehouses():
        yield from _judge_sums(census, w)


def _judge_sums(census: Census, w: int) -> Iterator[Problem]:
    districts = range(1, DISTRICTS + 1)
    ytd = [census.district_ytd(w, d) for d in districts]
    paid = [census.paid(w, d) for d in districts]
    w_ytd = census.warehouse_ytd(w)
    at = ("warehouse", w)
    if w_ytd != sum(ytd):
        yield _differ("3.3.2.1", at, "W_YTD", w_ytd, "the sum of D_YTD", sum(ytd))
    if w_ytd != sum(paid):
        yield _differ("3.3.2.8", at, "W_YTD", w_ytd, "the sum of H_AMOUNT", sum(paid))
    for d, left, right in zip(districts, ytd, paid, strict=True):
        if left != right:
            at_district = ("district", w, d)
            yield _differ("3.3.2.9", at_district, "D_YTD", left, "the sum of H_AMOUNT", right)


def _judge_district(district: District, facts: DistrictFacts) -> Iterator[Problem]:
    at = ("district", *district)
    last = facts.next_o_id - 1
    if last != facts.order_max:
        yield _differ("3.3.2.2", at, "D_NEXT_O_ID - 1", last, "max(O_ID)", facts.order_max)
    if facts.new_order_count:
        newest, oldest = facts.new_order_max, facts.new_order_min
        if last != newest:
            yield _differ("3.3.2.2", at, "D_NEXT_O_ID - 1", last, "max(NO_O_ID)", newest)
        if newest - oldest + 1 != facts.new_order_count:
            left, right = f"from NO_O_ID {oldest} to {newest}", "the number of NEW_ORDER rows"
            yield _differ("3.3.2.3", at, left, newest - oldest + 1, right, facts.new_order_count)
    ol_cnt = sum(order.ol_cnt for order in facts.orders.values())
    lines = sum(order.lines for order in facts.orders.values())
    if ol_cnt != lines:
        right = "the number of ORDER_LINE rows"
        yield _differ("3.3.2.4", at, "the sum of O_OL_CNT", ol_cnt, right, lines)
    delivered = facts.order_count - facts.new_order_count
    counted = DELIVERED + sum(each.delivery_cnt for each in facts.customers.values())
    if delivered != counted:
        left, right = "ORDERS less NEW_ORDER rows", f"{DELIVERED} and the sum of C_DELIVERY_CNT"
        yield _differ("3.3.2.11", at, left, delivered, right, counted)
    first = facts.new_order_min or facts.next_o_id
    if facts.oldest_new_order != first:
        left, right = "the oldest new order in the register", "the one in the table"
        yield _differ("index", at, left, facts.oldest_new_order, right, first)


def _judge_order(at: tuple[str | int, ...], order: OrderFacts) -> Iterator[Problem]:
    if order.customer is None:
        if order.is_new:
            yield Problem("3.3.2.5", at, "it is a new order, but there is no such order")
    elif order.is_delivered == order.is_new:
        carrier = "a carrier" if order.is_delivered else "no carrier"
        row = "a" if order.is_new else "no"
        yield Problem("3.3.2.5", at, f"it has {carrier} and {row} NEW_ORDER row")
    if order.ol_cnt != order.lines:
        right = "the number of ORDER_LINE rows"
        yield _differ("3.3.2.6", at, "O_OL_CNT", order.ol_cnt, right, order.lines)
    if order.lines_delivered != (order.lines if order.is_delivered else 0):
        carrier = "a carrier" if order.is_delivered else "no carrier"
        told = f"{order.lines_delivered} of {order.lines} lines have a date of delivery"
        yield Problem("3.3.2.7", at, f"it has {carrier}, and {told}")


def _judge_customer(at: tuple[str | int, ...], customer: CustomerFacts) -> Iterator[Problem]:
    delivered, balance = customer.amount_delivered, customer.balance
    if balance != delivered - customer.paid:
        right = f"delivered {delivered} less paid {customer.paid}"
        yield _differ("3.3.2.10", at, "C_BALANCE", balance, right, delivered - customer.paid)
    if balance + customer.ytd_payment != delivered:
        left = "C_BALANCE + C_YTD_PAYMENT"
        right = "the amount delivered"
        yield _differ("3.3.2.12", at, left, balance + customer.ytd_payment, right, delivered)
    if customer.last_order != customer.last_order_seen:
        left, right = "the last order in the register", "the one in the table"
        yield _differ("index", at, left, customer.last_order, right, customer.last_order_seen)


def _differ(
    condition: str, where: tuple[str | int, ...], left: str, one: Any, right: str, other: Any
) -> Problem:
    return Problem(condition, where, f"{left} is {one}, and {right} is {other}")
