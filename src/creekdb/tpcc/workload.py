"""Client workload: seeded streams of transactions (clauses 2.4.1 to 2.8.1 and 5.2.3).

A client uses a terminal of its home warehouse. Kinds are drawn with the paper's shares (Section
6.1), customers and items with NURand, whose constants all clients of a run share. The paper runs
Payment as a strong operation; callers may decide otherwise by `kind`.

A cluster has ten terminals per warehouse, spread evenly over the replicas. A terminal belongs to a
district, and each replica serves the same districts of every warehouse. So every warehouse is in
use at every replica. (If replicas served whole warehouses, transactions of different replicas would
hardly ever conflict.) With more than ten replicas, each serves one district. Some then share a
district, with a terminal each.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, NamedTuple

from creekdb.errors import BadValue
from creekdb.execution.datatype import DataType
from creekdb.protocol.request import Operation
from creekdb.tpcc.population.random_values import (
    LAST_NAMES,
    NURAND_A_CUSTOMER,
    NURAND_A_ITEM,
    NURAND_A_LAST_NAME,
    nurand,
    run_constants,
)
from creekdb.tpcc.population.rows import Population
from creekdb.tpcc.schema import CUSTOMERS, DISTRICTS, ITEMS, LINES_MAX, LINES_MIN

TRANSACTION_SHARES: Final = {
    "new_order": 45,
    "payment": 43,
    "delivery": 4,
    "order_status": 4,
    "stock_level": 4,
}
"""Share of each transaction, in percent."""
STRONG_KINDS: Final = frozenset({"payment"})
UNUSED_ITEM: Final = ITEMS + 1


class TransactionInput(NamedTuple):
    kind: str
    operation: Operation
    is_strong: bool
    """True if the paper's experiments run the transaction as strong."""


class NurandConstants(NamedTuple):
    """Constant C of NURand per kind of value (clause 2.1.6.1)."""

    last_name: int
    customer: int
    item: int


def draw_constants(seed: int, population: Population) -> NurandConstants:
    random = Random(f"tpcc constants {seed}")
    return NurandConstants(
        random.choice(run_constants(population.last_name_constant)),
        random.randint(0, NURAND_A_CUSTOMER),
        random.randint(0, NURAND_A_ITEM),
    )


class TransactionInputs:
    """Endless iterator of the `TransactionInput`s of one client."""

    def __init__(self, datatype: DataType, population: Population, seed: int, client: Any) -> None:
        if type(client) is not int or client < 0:
            raise BadValue(f"client is {client!r}: it must be an integer from 0")
        self._datatype = datatype
        self._warehouses = population.warehouses
        self._constants = draw_constants(seed, population)
        generator = Random(f"tpcc inputs {seed} {client}")
        self._random = generator.random
        self.warehouse: int = client % population.warehouses + 1
        self.district: int = client // population.warehouses % DISTRICTS + 1
        """District of the terminal; only Stock-Level uses it."""
        self._argument_generators: dict[str, Callable[[], tuple[Any, ...]]] = {
            kind: getattr(self, kind) for kind in TRANSACTION_SHARES
        }
        self._weighted_kinds = tuple(
            kind for kind, share in TRANSACTION_SHARES.items() for _ in range(share)
        )

    def __iter__(self) -> Iterator[TransactionInput]:
        return self

    def __next__(self) -> TransactionInput:
        kind = self._weighted_kinds[int(self._random() * len(self._weighted_kinds))]
        operation = self._datatype.call(kind, *self._argument_generators[kind]())
        return TransactionInput(kind, operation, kind in STRONG_KINDS)

    def new_order(self) -> tuple[Any, ...]:
        """Clause 2.4.1. The last item of one order in a hundred does not exist."""
        home = self.warehouse
        random = self._random
        district, customer = self._between(1, DISTRICTS), self._customer()
        count = self._between(LINES_MIN, LINES_MAX)
        lines: list[tuple[int, int, int]] = []
        for _ in range(count):
            coarse, fine = int(random() * (NURAND_A_ITEM + 1)), 1 + int(random() * ITEMS)
            item = nurand(coarse, fine, self._constants.item, 1, ITEMS)
            supplier = self._other_warehouse() if random() < 0.01 else home
            lines.append((item, supplier, 1 + int(random() * 10)))
        if random() < 0.01:
            _, supplier, quantity = lines[-1]
            lines[-1] = UNUSED_ITEM, supplier, quantity
        return home, district, customer, tuple(lines)

    def payment(self) -> tuple[Any, ...]:
        """Clause 2.5.1. 15 % of the customers belong to another warehouse."""
        district = self._between(1, DISTRICTS)
        if self._random() < 0.15:
            c_w, c_d = self._other_warehouse(), self._between(1, DISTRICTS)
        else:
            c_w, c_d = self.warehouse, district
        customer = self._last_name_or_customer()
        return self.warehouse, district, c_w, c_d, customer, self._between(1_00, 5000_00)

    def order_status(self) -> tuple[Any, ...]:
        """Clause 2.6.1."""
        return self.warehouse, self._between(1, DISTRICTS), self._last_name_or_customer()

    def delivery(self) -> tuple[Any, ...]:
        """Clause 2.7.1."""
        return self.warehouse, self._between(1, 10)

    def stock_level(self) -> tuple[Any, ...]:
        """Clause 2.8.1."""
        return self.warehouse, self.district, self._between(10, 20)

    def _between(self, low: int, high: int) -> int:
        return low + int(self._random() * (high - low + 1))

    def _customer(self) -> int:
        coarse, fine = self._between(0, NURAND_A_CUSTOMER), self._between(1, CUSTOMERS)
        drawn: int = nurand(coarse, fine, self._constants.customer, 1, CUSTOMERS)
        return drawn

    def _last_name_or_customer(self) -> int | str:
        """Return a last name (60 %) or a customer number."""
        if self._random() < 0.6:
            coarse, fine = self._between(0, NURAND_A_LAST_NAME), self._between(0, 999)
            name: int = nurand(coarse, fine, self._constants.last_name, 0, 999)
            return LAST_NAMES[name]
        return self._customer()

    def _other_warehouse(self) -> int:
        """Return any warehouse but the home warehouse; with one warehouse, that one."""
        if self._warehouses == 1:
            return self.warehouse
        drawn = self._between(1, self._warehouses - 1)
        return drawn + (drawn >= self.warehouse)


def client_numbers(replica: int, replicas: int, warehouses: int) -> list[int]:
    """Return the client numbers of a replica; `TransactionInputs` maps a client to a terminal."""
    return [
        district * warehouses + warehouse
        for district in range(max(DISTRICTS, replicas))
        if district % replicas == replica
        for warehouse in range(warehouses)
    ]


class Terminals:
    """The calls at each replica. Every call comes from a random terminal of the replica."""

    def __init__(
        self, datatype: DataType, population: Population, seed: int, replicas: int
    ) -> None:
        self._terminals = [
            [
                TransactionInputs(datatype, population, seed, client)
                for client in client_numbers(replica, replicas, population.warehouses)
            ]
            for replica in range(replicas)
        ]

    def __call__(self, replica: int, random: Random) -> Operation:
        terminals = self._terminals[replica]
        return next(terminals[int(random.random() * len(terminals))]).operation
