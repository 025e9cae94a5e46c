"""The initial data, a row at a time: a pure function of (seed, table, key), for any number of
warehouses.

Nothing is computed before it is asked for. Two facts about a district take all of its customers to
find out, and are kept: who ordered what (a permutation), and who is called what. They are small
arrays, and only so many districts' are kept; everything else is as cheap to compute as to look up.
"""

from array import array
from bisect import bisect_left
from functools import lru_cache
from typing import Any, Final

from creekdb.errors import BadValue
from creekdb.tpcc.draws import Pools, Scalars
from creekdb.tpcc.formulas import Formulas, Row, streams
from creekdb.tpcc.names import LAST_NAME_NUMBERS
from creekdb.tpcc.schema import CUSTOMERS

WAREHOUSES_MAX: Final = 100_000
SEED_MAX: Final = 2**63 - 1
DISTRICTS_KEPT: Final = 4_096
"""About 30 kB each."""


def check(seed: Any, warehouses: Any) -> None:
    """Is there such a population? Otherwise `BadValue`."""
    if type(warehouses) is not int or not 1 <= warehouses <= WAREHOUSES_MAX:
        raise BadValue(f"there are from 1 to {WAREHOUSES_MAX} warehouses, not {warehouses!r}")
    if type(seed) is not int or not 0 <= seed <= SEED_MAX:
        raise BadValue(f"a seed is an int from 0 to {SEED_MAX}, not {seed!r}")


class Population:
    def __init__(self, seed: Any, warehouses: Any) -> None:
        check(seed, warehouses)
        self.seed: int = seed
        self.warehouses: int = warehouses
        self.pools = Pools(seed)
        self._formulas = Formulas(seed, Scalars(self.pools))
        self.warehouse = self._formulas.warehouse
        self.district = self._formulas.district
        self.customer = self._formulas.customer
        self.history = self._formulas.history
        self.new_order = self._formulas.new_order
        self.order_line = self._formulas.order_line
        self.item = self._formulas.item
        self.stock = self._formulas.stock
        self.line_count = self._formulas.line_count
        self._orderers = lru_cache(DISTRICTS_KEPT)(self._sort_customers)
        self._namesakes = lru_cache(DISTRICTS_KEPT)(self._sort_names)

    @property
    def last_name_constant(self) -> int:
        """C of NURand for last names, as the population used it (C-Load of clause 2.1.6.1)."""
        return streams(self.seed).last_name_constant

    @property
    def districts_sorted(self) -> int:
        """How often all customers of a district were gone through."""
        return self._orderers.cache_info().misses + self._namesakes.cache_info().misses

    def orders(self, w: int, d: int, o: int) -> Row:
        customers, _ = self._orderers(w, d)
        return self._formulas.orders(w, d, o, customers[o - 1])

    def last_order(self, w: int, d: int, c: int) -> int:
        """The number of the customer's order: in the beginning everybody has one."""
        _, orders = self._orderers(w, d)
        return orders[c - 1]

    def customers_named(self, w: int, d: int, last_name: str) -> tuple[int, ...]:
        """The customers of that name in the order of their first names (clause 2.5.2.2)."""
        number = LAST_NAME_NUMBERS[last_name]
        numbers, customers = self._namesakes(w, d)
        start, stop = bisect_left(numbers, number), bisect_left(numbers, number + 1)
        first_name = self._formulas.first_name
        return tuple(sorted(customers[start:stop], key=lambda c: (first_name(w, d, c), c)))

    def _sort_customers(self, w: int, d: int) -> tuple["array[int]", "array[int]"]:
        """The customers of the orders from 1 on, and the orders of the customers from 1 on."""
        word = self._formulas.customer_word
        customers = sorted(range(1, CUSTOMERS + 1), key=lambda c: (word(w, d, c), c))
        orders = array("H", bytes(2 * CUSTOMERS))
        for o, c in enumerate(customers, 1):
            orders[c - 1] = o
        return array("H", customers), orders

    def _sort_names(self, w: int, d: int) -> tuple["array[int]", "array[int]"]:
        """The numbers of the last names in order, and whose they are."""
        number = self._formulas.last_name_number
        pairs = sorted((number(w, d, c), c) for c in range(1, CUSTOMERS + 1))
        return array("H", [name for name, _ in pairs]), array("H", [c for _, c in pairs])
