"""Initial rows of the tables (clause 4.3.3.1), as pure functions of (seed, table, key).

`RowFormulas` are written once for both ways of evaluation. The parts of a key are integers or
arrays of integers, and so are the numbers in the resulting rows. A column without randomness is a
single value.

Where the specification requires a random selection of 10 % of the rows, one row of every ten
consecutive ones is selected: at random, and exactly 10 %.

`Population` computes rows one at a time and on demand, for any number of warehouses. Two facts
about a district depend on all of its customers and are cached: the permutation of its orders and
the index of its last names. They are small arrays, cached for a bounded number of districts. All
other columns are as cheap to compute as to look up.
"""

from array import array
from bisect import bisect_left
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from creekdb.errors import BadValue
from creekdb.tpcc.population.random_values import (
    DIGITS,
    GOLDEN_GAMMA,
    LAST_NAME_NUMBERS,
    LAST_NAMES,
    LETTERS,
    MASK_64,
    NURAND_A_LAST_NAME,
    ScalarGenerator,
    ValueGenerator,
    number_between,
    nurand,
    splitmix64,
    text_pools,
)
from creekdb.tpcc.schema import (
    C_FIRST,
    CUSTOMERS,
    DELIVERED,
    DISTRICT_TEXT,
    DISTRICTS,
    INITIAL_D_YTD,
    INITIAL_PAYMENT,
    INITIAL_W_YTD,
    ITEMS,
    LINES_MAX,
    LINES_MIN,
    POPULATED_AT,
)

RowValues: TypeAlias = tuple[Any, ...]

COLUMN_OFFSETS: Final = tuple(number * GOLDEN_GAMMA & MASK_64 for number in range(11))
"""Distances from a row's word to the words of its columns."""
CREDITS: Final = ("GC", "BC")
CREDIT_LIMIT: Final = 50_000_00


class WordStreams(NamedTuple):
    """First word of each table, and the constant of the population's last names."""

    warehouse: int
    district: int
    customer: int
    history: int
    orders: int
    order_line: int
    item: int
    stock: int
    tens: int
    permutation: int
    last_name_constant: int


def derive_streams(seed: int) -> WordStreams:
    start = splitmix64(seed)
    words = [
        splitmix64(start + number * GOLDEN_GAMMA) for number in range(len(WordStreams._fields))
    ]
    return WordStreams._make((*words[:-1], words[-1] % (NURAND_A_LAST_NAME + 1)))


class RowFormulas:
    def __init__(self, seed: int, generator: ValueGenerator) -> None:
        self._generator = generator
        self._streams = derive_streams(seed)

    def warehouse(self, w: Any) -> RowValues:
        word = splitmix64(self._streams.warehouse + w * GOLDEN_GAMMA)
        return (*self._name_address_and_tax(word), INITIAL_W_YTD)

    def district(self, w: Any, d: Any) -> RowValues:
        word = splitmix64(self._streams.district + district_number(w, d) * GOLDEN_GAMMA)
        return (*self._name_address_and_tax(word), CUSTOMERS + 1, INITIAL_D_YTD)

    def customer(self, w: Any, d: Any, c: Any) -> RowValues:
        generator = self._generator
        number = customer_number(w, d, c)
        word = splitmix64(self._streams.customer + number * GOLDEN_GAMMA)
        return (
            self.first_name(w, d, c),
            "OE",
            generator.select(LAST_NAMES, self.last_name_number(w, d, c)),
            *self._address(word, 3),
            generator.text(splitmix64(word + COLUMN_OFFSETS[8]), 16, 16, DIGITS),
            POPULATED_AT,
            generator.select(CREDITS, self._one_of_ten(self._streams.customer, number) * 1),
            CREDIT_LIMIT,
            number_between(splitmix64(word + COLUMN_OFFSETS[9]), 0, 5000),
            generator.text(splitmix64(word + COLUMN_OFFSETS[10]), 300, 500),
            -INITIAL_PAYMENT,
            INITIAL_PAYMENT,
            1,
            0,
        )

    def first_name(self, w: Any, d: Any, c: Any) -> Any:
        word = splitmix64(self._streams.customer + customer_number(w, d, c) * GOLDEN_GAMMA)
        return self._generator.text(splitmix64(word + COLUMN_OFFSETS[1]), 8, 16)

    def last_name_number(self, w: Any, d: Any, c: Any) -> Any:
        """Return the number of the last name. The first 1,000 customers have all names in order."""
        word = splitmix64(self._streams.customer + customer_number(w, d, c) * GOLDEN_GAMMA)
        word = splitmix64(word + COLUMN_OFFSETS[2])
        coarse, fine = word % (NURAND_A_LAST_NAME + 1), (word >> 32) % 1000
        drawn = nurand(coarse, fine, self._streams.last_name_constant, 0, 999)
        return self._generator.choose(c <= 1000, c - 1, drawn)

    def history(self, w: Any, d: Any, c: Any, number: Any) -> RowValues:
        word = splitmix64(self._streams.history + customer_number(w, d, c) * GOLDEN_GAMMA)
        return (
            w,
            d,
            POPULATED_AT,
            INITIAL_PAYMENT,
            self._generator.text(splitmix64(word + COLUMN_OFFSETS[1]), 12, 24),
        )

    def new_order(self, w: Any, d: Any, o: Any) -> RowValues:
        return ()

    def orders(self, w: Any, d: Any, o: Any, customer: Any) -> RowValues:
        word = splitmix64(self._streams.orders + customer_number(w, d, o) * GOLDEN_GAMMA)
        carrier = self._generator.null_where(
            o > DELIVERED, number_between(splitmix64(word + COLUMN_OFFSETS[1]), 1, 10)
        )
        return customer, POPULATED_AT, self.line_count(w, d, o), 1, carrier

    def line_count(self, w: Any, d: Any, o: Any) -> Any:
        word = splitmix64(self._streams.orders + customer_number(w, d, o) * GOLDEN_GAMMA)
        return number_between(word, LINES_MIN, LINES_MAX)

    def permutation_word(self, w: Any, d: Any, c: Any) -> Any:
        """Return the sort key that turns a district's customers into those of its orders."""
        return splitmix64(self._streams.permutation + customer_number(w, d, c) * GOLDEN_GAMMA)

    def order_line(self, w: Any, d: Any, o: Any, n: Any) -> RowValues:
        generator = self._generator
        number = customer_number(w, d, o) * (LINES_MAX + 1) + n
        word = splitmix64(self._streams.order_line + number * GOLDEN_GAMMA)
        return (
            number_between(word, 1, ITEMS),
            w,
            5,
            generator.choose(
                o > DELIVERED, number_between(splitmix64(word + COLUMN_OFFSETS[1]), 1, 9999_99), 0
            ),
            generator.text(splitmix64(word + COLUMN_OFFSETS[2]), DISTRICT_TEXT, DISTRICT_TEXT),
            generator.null_where(o > DELIVERED, POPULATED_AT),
        )

    def item(self, i: Any) -> RowValues:
        generator = self._generator
        word = splitmix64(self._streams.item + i * GOLDEN_GAMMA)
        return (
            number_between(word, 1, 10_000),
            generator.text(splitmix64(word + COLUMN_OFFSETS[1]), 14, 24),
            number_between(splitmix64(word + COLUMN_OFFSETS[2]), 1_00, 100_00),
            self._data(word, self._streams.item, i - 1),
        )

    def stock(self, w: Any, i: Any) -> RowValues:
        number = (w - 1) * ITEMS + i - 1
        word = splitmix64(self._streams.stock + number * GOLDEN_GAMMA)
        texts = self._generator.text(word, DISTRICTS * DISTRICT_TEXT, DISTRICTS * DISTRICT_TEXT)
        data = self._data(word, self._streams.stock, number)
        return texts, data, number_between(word, 10, 100), 0, 0, 0

    def _name_address_and_tax(self, word: Any) -> RowValues:
        name = self._generator.text(splitmix64(word + COLUMN_OFFSETS[1]), 6, 10)
        tax = number_between(splitmix64(word + COLUMN_OFFSETS[7]), 0, 2000)
        return (name, *self._address(word, 2), tax)

    def _address(self, word: Any, first: int) -> RowValues:
        """Return two streets, the city, the state and the zip code, from column `first` on."""
        text = self._generator.text
        words = [splitmix64(word + offset) for offset in COLUMN_OFFSETS[first : first + 5]]
        state, zip_prefix = text(words[3], 2, 2, LETTERS), text(words[4], 4, 4, DIGITS)
        streets_and_city = [text(each, 10, 20) for each in words[:3]]
        return (*streets_and_city, state, self._generator.append_text(zip_prefix, "11111"))

    def _data(self, word: Any, stream: int, number: Any) -> Any:
        """Return I_DATA or S_DATA."""
        drawn = splitmix64(word + COLUMN_OFFSETS[3])
        text = self._generator.text(drawn, 26, 50)
        return self._generator.insert_mark(text, self._one_of_ten(stream, number), drawn >> 17)

    def _one_of_ten(self, stream: int, number: Any) -> Any:
        tens = splitmix64((self._streams.tens ^ stream) + number // 10 * GOLDEN_GAMMA)
        return tens % 10 == number % 10


def district_number(w: Any, d: Any) -> Any:
    return (w - 1) * DISTRICTS + d - 1


def customer_number(w: Any, d: Any, c: Any) -> Any:
    """Return the number of a customer or order across all districts, from 0 without gaps."""
    return district_number(w, d) * CUSTOMERS + c - 1


WAREHOUSES_MAX: Final = 100_000
SEED_MAX: Final = 2**63 - 1
DISTRICTS_CACHED_MAX: Final = 4_096
"""Maximum number of districts in each cache, with about 30 kB each."""
LAST_NAMES_CACHED_MAX: Final = 16_384
"""Maximum number of cached indexes of namesakes, with about 1 kB each."""


def check_population(seed: Any, warehouses: Any) -> None:
    """Raise `BadValue` unless the seed and the number of warehouses define a population."""
    if type(warehouses) is not int or not 1 <= warehouses <= WAREHOUSES_MAX:
        raise BadValue(f"warehouses is {warehouses!r}: it must be from 1 to {WAREHOUSES_MAX}")
    if type(seed) is not int or not 0 <= seed <= SEED_MAX:
        raise BadValue(f"seed is {seed!r}: it must be an integer from 0 to {SEED_MAX}")


class Population:
    def __init__(self, seed: Any, warehouses: Any) -> None:
        check_population(seed, warehouses)
        self.seed: int = seed
        self.warehouses: int = warehouses
        self.pools = text_pools(seed)
        self._formulas = RowFormulas(seed, ScalarGenerator(self.pools))
        self.warehouse = self._formulas.warehouse
        self.district = self._formulas.district
        self.customer = self._formulas.customer
        self.history = self._formulas.history
        self.new_order = self._formulas.new_order
        self.order_line = self._formulas.order_line
        self.item = self._formulas.item
        self.stock = self._formulas.stock
        self.line_count = self._formulas.line_count
        self.order_permutation = lru_cache(DISTRICTS_CACHED_MAX)(self._sort_customers)
        self.last_name_index = lru_cache(DISTRICTS_CACHED_MAX)(self._sort_names)
        self.namesakes = lru_cache(LAST_NAMES_CACHED_MAX)(self._group_namesakes)
        """The customers with a last name, by first name and both in order."""

    @property
    def last_name_constant(self) -> int:
        """C of NURand for the population's last names (C-Load of clause 2.1.6.1)."""
        return derive_streams(self.seed).last_name_constant

    def orders(self, w: int, d: int, o: int) -> RowValues:
        customers, _ = self.order_permutation(w, d)
        return self._formulas.orders(w, d, o, customers[o - 1])

    def last_order(self, w: int, d: int, c: int) -> int:
        """Return the number of the customer's order. Initially every customer has one."""
        _, orders = self.order_permutation(w, d)
        return orders[c - 1]

    def customers_named(self, w: int, d: int, last_name: str) -> tuple[int, ...]:
        """Return the customers with that name, ordered by first name (clause 2.5.2.2)."""
        number = LAST_NAME_NUMBERS[last_name]
        numbers, customers = self.last_name_index(w, d)
        start, stop = bisect_left(numbers, number), bisect_left(numbers, number + 1)
        first_name = self._formulas.first_name
        return tuple(sorted(customers[start:stop], key=lambda c: (first_name(w, d, c), c)))

    def _group_namesakes(self, w: int, d: int, last_name: str) -> dict[str, tuple[int, ...]]:
        index: dict[str, tuple[int, ...]] = {}
        for c in self.customers_named(w, d, last_name):
            first_name = self.customer(w, d, c)[C_FIRST]
            index[first_name] = (*index.get(first_name, ()), c)
        return index

    def _sort_customers(self, w: int, d: int) -> tuple["array[int]", "array[int]"]:
        """Return the customers by order, and the orders by customer, both from number 1 on."""
        word = self._formulas.permutation_word
        customers = sorted(range(1, CUSTOMERS + 1), key=lambda c: (word(w, d, c), c))
        orders = array("H", bytes(2 * CUSTOMERS))
        for o, c in enumerate(customers, 1):
            orders[c - 1] = o
        return array("H", customers), orders

    def _sort_names(self, w: int, d: int) -> tuple["array[int]", "array[int]"]:
        """Return the sorted numbers of the last names, and the customer of each."""
        number = self._formulas.last_name_number
        pairs = sorted((number(w, d, c), c) for c in range(1, CUSTOMERS + 1))
        return array("H", [name for name, _ in pairs]), array("H", [c for _, c in pairs])
