"""Finding a customer by number or by last name (clauses 2.5.2.2 and 2.6.2.2)."""

from typing import Any

from creekdb.execution.transaction import Transaction
from creekdb.tpcc.layout import CUSTOMERS_NAMED


def find_customer(tx: Transaction, w: Any, d: Any, customer: Any) -> int:
    """The number given, or among the customers of the last name given, in the order of their first
    names, the one in the middle: of n the one at n / 2, rounded up, counted from one."""
    if type(customer) is int:
        return customer
    namesakes: tuple[int, ...] | None = tx.get((CUSTOMERS_NAMED, w, d, customer))
    if namesakes is None:
        raise LookupError(f"no customer of district {w}, {d} is called {customer}")
    return namesakes[(len(namesakes) - 1) // 2]
