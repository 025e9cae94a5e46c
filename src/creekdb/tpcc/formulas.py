"""What the tables hold in the beginning (clause 4.3.3.1): a row as a function of seed and key.

Written once for both ways to evaluate it: the parts of a key are integers or arrays of integers,
and so are the numbers in the rows that come out. A column without chance in it is given as one
value.

Where the specification wants 10 % of the rows, selected at random, it is one row of every ten
consecutive ones: at random, and exactly 10 %.
"""

from typing import Any, Final, NamedTuple, TypeAlias

from creekdb.tpcc.draws import MASK, STEP, Draws, between, mix
from creekdb.tpcc.names import A_LAST_NAME, LAST_NAMES, nurand
from creekdb.tpcc.schema import (
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

Row: TypeAlias = tuple[Any, ...]

STEPS: Final = tuple(number * STEP & MASK for number in range(11))
"""From a row's word to the words of its columns."""
CREDITS: Final = ("GC", "BC")
CREDIT_LIMIT: Final = 50_000_00


class Streams(NamedTuple):
    """Where each table's words begin, and the constant of the population's last names."""

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


def streams(seed: int) -> Streams:
    start = mix(seed)
    words = [mix(start + number * STEP) for number in range(len(Streams._fields))]
    return Streams._make((*words[:-1], words[-1] % (A_LAST_NAME + 1)))


class Formulas:
    def __init__(self, seed: int, draws: Draws) -> None:
        self._draws = draws
        self._streams = streams(seed)

    def warehouse(self, w: Any) -> Row:
        word = mix(self._streams.warehouse + w * STEP)
        return (*self._place(word), between(mix(word + STEPS[7]), 0, 2000), INITIAL_W_YTD)

    def district(self, w: Any, d: Any) -> Row:
        word = mix(self._streams.district + district_number(w, d) * STEP)
        tax = between(mix(word + STEPS[7]), 0, 2000)
        return (*self._place(word), tax, CUSTOMERS + 1, INITIAL_D_YTD)

    def customer(self, w: Any, d: Any, c: Any) -> Row:
        draws = self._draws
        number = customer_number(w, d, c)
        word = mix(self._streams.customer + number * STEP)
        return (
            self._first_name(word),
            "OE",
            draws.pick(LAST_NAMES, self._last_name_number(word, c)),
            draws.text(mix(word + STEPS[3]), 10, 20),
            draws.text(mix(word + STEPS[4]), 10, 20),
            draws.text(mix(word + STEPS[5]), 10, 20),
            draws.letters(mix(word + STEPS[6]), 2),
            draws.followed(draws.digits(mix(word + STEPS[7]), 4), "11111"),
            draws.digits(mix(word + STEPS[8]), 16),
            POPULATED_AT,
            draws.pick(CREDITS, self._one_of_ten(self._streams.customer, number) * 1),
            CREDIT_LIMIT,
            between(mix(word + STEPS[9]), 0, 5000),
            draws.text(mix(word + STEPS[10]), 300, 500),
            -INITIAL_PAYMENT,
            INITIAL_PAYMENT,
            1,
            0,
        )

    def first_name(self, w: Any, d: Any, c: Any) -> Any:
        return self._first_name(mix(self._streams.customer + customer_number(w, d, c) * STEP))

    def last_name_number(self, w: Any, d: Any, c: Any) -> Any:
        """The first thousand customers have all the names there are, in order."""
        word = mix(self._streams.customer + customer_number(w, d, c) * STEP)
        return self._last_name_number(word, c)

    def _first_name(self, customer_word: Any) -> Any:
        return self._draws.text(mix(customer_word + STEPS[1]), 8, 16)

    def _last_name_number(self, customer_word: Any, c: Any) -> Any:
        word = mix(customer_word + STEPS[2])
        coarse, fine = word % (A_LAST_NAME + 1), (word >> 32) % 1000
        drawn = nurand(coarse, fine, self._streams.last_name_constant, 0, 999)
        return self._draws.either(c <= 1000, c - 1, drawn)

    def history(self, w: Any, d: Any, c: Any, number: Any) -> Row:
        word = mix(self._streams.history + customer_number(w, d, c) * STEP)
        return w, d, POPULATED_AT, INITIAL_PAYMENT, self._draws.text(mix(word + STEPS[1]), 12, 24)

    def new_order(self, w: Any, d: Any, o: Any) -> Row:
        return ()

    def orders(self, w: Any, d: Any, o: Any, customer: Any) -> Row:
        word = mix(self._streams.orders + customer_number(w, d, o) * STEP)
        carrier = self._draws.unless(o > DELIVERED, between(mix(word + STEPS[1]), 1, 10))
        return customer, POPULATED_AT, between(word, LINES_MIN, LINES_MAX), 1, carrier

    def line_count(self, w: Any, d: Any, o: Any) -> Any:
        word = mix(self._streams.orders + customer_number(w, d, o) * STEP)
        return between(word, LINES_MIN, LINES_MAX)

    def customer_word(self, w: Any, d: Any, c: Any) -> Any:
        """A district's customers, sorted by this word, are those of its orders from 1 on."""
        return mix(self._streams.permutation + customer_number(w, d, c) * STEP)

    def order_line(self, w: Any, d: Any, o: Any, n: Any) -> Row:
        draws = self._draws
        number = customer_number(w, d, o) * (LINES_MAX + 1) + n
        word = mix(self._streams.order_line + number * STEP)
        return (
            between(word, 1, ITEMS),
            w,
            5,
            draws.either(o > DELIVERED, between(mix(word + STEPS[1]), 1, 9999_99), 0),
            draws.text(mix(word + STEPS[2]), DISTRICT_TEXT, DISTRICT_TEXT),
            draws.unless(o > DELIVERED, POPULATED_AT),
        )

    def item(self, i: Any) -> Row:
        draws = self._draws
        word = mix(self._streams.item + i * STEP)
        return (
            between(word, 1, 10_000),
            draws.text(mix(word + STEPS[1]), 14, 24),
            between(mix(word + STEPS[2]), 1_00, 100_00),
            self._data(word, self._streams.item, i - 1),
        )

    def stock(self, w: Any, i: Any) -> Row:
        number = (w - 1) * ITEMS + i - 1
        word = mix(self._streams.stock + number * STEP)
        texts = self._draws.text(word, DISTRICTS * DISTRICT_TEXT, DISTRICTS * DISTRICT_TEXT)
        data = self._data(word, self._streams.stock, number)
        return texts, data, between(word, 10, 100), 0, 0, 0

    def _place(self, word: Any) -> Row:
        """A name and an address."""
        draws = self._draws
        return (
            draws.text(mix(word + STEPS[1]), 6, 10),
            draws.text(mix(word + STEPS[2]), 10, 20),
            draws.text(mix(word + STEPS[3]), 10, 20),
            draws.text(mix(word + STEPS[4]), 10, 20),
            draws.letters(mix(word + STEPS[5]), 2),
            draws.followed(draws.digits(mix(word + STEPS[6]), 4), "11111"),
        )

    def _data(self, word: Any, stream: int, number: Any) -> Any:
        """I_DATA or S_DATA."""
        drawn = mix(word + STEPS[3])
        text = self._draws.text(drawn, 26, 50)
        return self._draws.marked(text, self._one_of_ten(stream, number), drawn >> 17)

    def _one_of_ten(self, stream: int, number: Any) -> Any:
        tens = mix((self._streams.tens ^ stream) + number // 10 * STEP)
        return tens % 10 == number % 10


def district_number(w: Any, d: Any) -> Any:
    return (w - 1) * DISTRICTS + d - 1


def customer_number(w: Any, d: Any, c: Any) -> Any:
    """Numbers customers, and orders, through all districts, without a gap, from 0."""
    return district_number(w, d) * CUSTOMERS + c - 1
