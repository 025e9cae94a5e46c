"""A small shop modelled on TPC-C, which `execution` runs on the version store and on a plain dict.

Rows are tuples, except for the dict of a customer, under tuple keys. Operations are written for a
`Transaction`. `BareTransaction` is hand-written code without Creek: the same methods on a dict.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, TypeAlias

from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction
from creekdb.protocol.values import Key

SHOP = DataType("shop")

Calls: TypeAlias = list[tuple[str, tuple[Any, ...]]]

DISTRICTS, CUSTOMERS, ITEMS = 10, 300, 2_000
LINES_MIN, LINES_MAX = 4, 8


class BareTransaction:
    """Transaction without validation, isolation and rollback."""

    __slots__ = ("state", "timestamp")

    def __init__(self, state: dict[Key, Any], timestamp: int) -> None:
        self.state = state
        self.timestamp = timestamp

    def get(self, key: Key, default: Any = None) -> Any:
        return self.state.get(key, default)

    def pick(self, key: Key, *items: int) -> tuple[Any, ...] | None:
        value = self.state.get(key)
        return None if value is None else tuple([value[item] for item in items])

    def put(self, key: Key, value: Any) -> None:
        self.state[key] = value

    def delete(self, key: Key) -> None:
        self.state.pop(key, None)

    def add(self, key: Key, amount: int) -> None:
        self.state[key] = self.state.get(key, 0) + amount

    def scan(self, prefix: tuple[Any, ...]) -> Iterator[tuple[Key, Any]]:
        """Yield the entries with this prefix. Requires a sorted dict; keys compare natively."""
        sorted_state: Any = self.state
        for key in sorted_state.irange(prefix):
            if key[: len(prefix)] != prefix:
                return
            yield key, sorted_state[key]


# --- operations -------------------------------------------------------------------------------


@SHOP.operation
def new_order(
    tx: Transaction, district: int, customer: int, lines: tuple[tuple[int, int], ...]
) -> tuple[int, int]:
    """TPC-C's New-Order; returns the order's number and its total."""
    warehouse_tax = tx.get(("warehouse", 1))[6]
    row = tx.get(("district", 1, district))
    order = row[8]
    tx.put(("district", 1, district), (*row[:8], order + 1))
    buyer = tx.get(("customer", 1, district, customer))
    total = 0
    for number, (item, quantity) in enumerate(lines, 1):
        item_row = tx.get(("item", item))
        if item_row is None:
            raise LookupError(f"no item {item}")
        price, name, data = item_row
        remaining, sold, orders, stock_data, info = tx.get(("stock", 1, item))
        remaining = (
            remaining - quantity if remaining >= quantity + 10 else remaining - quantity + 91
        )
        stock = (remaining, sold + quantity, orders + 1, stock_data, info)
        tx.put(("stock", 1, item), stock)
        amount = price * quantity
        brand = "B" if "ORIGINAL" in data and "ORIGINAL" in stock_data else "G"
        line = (item, 1, quantity, amount, info, name, brand)
        tx.put(("line", 1, district, order, number), line)
        total += amount
    tx.put(("order", 1, district, order), (customer, tx.timestamp, None, len(lines)))
    tx.put(("new", 1, district, order), True)
    tx.put(("last", 1, district, customer), order)
    tax = warehouse_tax + row[6]
    return order, total * (10_000 - buyer["discount"]) * (10_000 + tax) // 100_000_000


@SHOP.operation
def payment(tx: Transaction, district: int, customer: int, amount: int) -> int:
    """TPC-C's Payment; returns the new balance."""
    warehouse_name = tx.get(("warehouse", 1))[0]
    district_name = tx.get(("district", 1, district))[0]
    tx.add(("earned", 1), amount)
    tx.add(("earned", 1, district), amount)
    buyer = tx.get(("customer", 1, district, customer))
    buyer["balance"] -= amount
    buyer["paid"] += amount
    buyer["payments"] += 1
    tx.put(("customer", 1, district, customer), buyer)
    history = (customer, district, tx.timestamp, amount, f"{warehouse_name}    {district_name}")
    tx.put(("history", 1, district, customer, buyer["payments"]), history)
    balance: int = buyer["balance"]
    return balance


@SHOP.operation(readonly=True)
def order_status(tx: Transaction, district: int, customer: int) -> tuple[Any, ...]:
    """TPC-C's Order-Status; returns the balance and the lines of the last order, read singly."""
    buyer = tx.get(("customer", 1, district, customer))
    order = tx.get(("last", 1, district, customer))
    if order is None:
        return buyer["balance"], ()
    count = tx.get(("order", 1, district, order))[3]
    lines = tuple(tx.get(("line", 1, district, order, number + 1)) for number in range(count))
    return buyer["balance"], lines


@SHOP.operation(readonly=True)
def order_lines(tx: Transaction, district: int, customer: int) -> tuple[Any, ...]:
    """Return the lines of the last order, read by a scan."""
    order = tx.get(("last", 1, district, customer))
    return tuple(tx.scan(("line", 1, district, order))) if order is not None else ()


@SHOP.operation
def touch(tx: Transaction, key: str) -> int:
    """Increment an integer: one read and one write."""
    count: int = tx.get(key, 0) + 1
    tx.put(key, count)
    return count


FUNCTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (new_order, payment, order_status, order_lines, touch)
}


# --- initial rows and calls ---------------------------------------------------------------------


def population() -> dict[Key, Any]:
    state: dict[Key, Any] = {}
    address = ("1 Creek Lane", "by the water", "Poznan", "PL", "60965")
    state["warehouse", 1] = ("Mill", *address, 850)
    for district in range(1, DISTRICTS + 1):
        state["district", 1, district] = (f"D{district}", *address, 520 + district, 0, 1)
        for customer in range(1, CUSTOMERS + 1):
            state["customer", 1, district, customer] = {
                "name": f"customer {customer}",
                "street": address[0],
                "city": address[2],
                "zip": address[4],
                "phone": "0616652000",
                "credit": "GC" if customer % 10 else "BC",
                "limit": 5_000_000,
                "discount": customer % 5_000,
                "balance": -1_000,
                "paid": 1_000,
                "payments": 1,
                "data": "a regular " * 20,
            }
    for item in range(1, ITEMS + 1):
        original = "ORIGINAL" if item % 10 == 0 else "nothing special"
        state["item", item] = (100 + item, f"item {item}", f"made of tin, {original}")
        state["stock", 1, item] = (50, 0, 0, f"on the shelf, {original}", "d" * 24)
    return state


def transaction_mix(count: int) -> Calls:
    """Return new orders, payments and status queries as 45 : 43 : 12. A new order accesses about
    30 registers."""
    random = Random(1)
    calls: Calls = []
    for _ in range(count):
        customer_key = random.randint(1, DISTRICTS), random.randint(1, CUSTOMERS)
        (name,) = random.choices(("new_order", "payment", "order_status"), (45, 43, 12))
        if name == "new_order":
            items = random.sample(range(1, ITEMS + 1), random.randint(LINES_MIN, LINES_MAX))
            calls.append(
                (name, (*customer_key, tuple((item, random.randint(1, 10)) for item in items)))
            )
        elif name == "payment":
            calls.append((name, (*customer_key, random.randint(100, 500_000))))
        else:
            calls.append((name, customer_key))
    return calls


def new_orders(count: int) -> Calls:
    return [each for each in transaction_mix(3 * count) if each[0] == "new_order"][:count]


def order_line_queries(count: int) -> Calls:
    """Return calls of `order_lines` for customers with orders."""
    orders = [arguments[:2] for _, arguments in new_orders(count)]
    return [("order_lines", arguments) for arguments in orders]


def increments(count: int) -> Calls:
    return [("touch", (f"key {number % 1_000}",)) for number in range(count)]
