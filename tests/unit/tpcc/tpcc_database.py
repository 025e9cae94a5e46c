"""Database for tests: executes transactions one after another on a population and exposes rows."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from creekdb.execution.datatype import DataType
from creekdb.execution.sequential import OperationRaised
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.protocol.values import Key
from creekdb.tpcc import Population, PopulationBase, TransactionInputs, datatype_on_population
from creekdb.tpcc.schema import TABLES

SEED = 20


@lru_cache(8)
def population(warehouses: int = 2, seed: int = SEED) -> Population:
    return Population(seed, warehouses)


@lru_cache(8)
def datatype(layout: str, warehouses: int = 2, seed: int = SEED) -> DataType:
    return datatype_on_population(population(warehouses, seed), layout)


def base(layout: str, warehouses: int = 2, seed: int = SEED) -> PopulationBase:
    found = datatype(layout, warehouses, seed).base
    assert isinstance(found, PopulationBase)
    return found


class TpccDatabase:
    def __init__(self, layout: str, warehouses: int = 2, seed: int = SEED) -> None:
        self.layout = layout
        self.base = base(layout, warehouses, seed)
        self.population = self.base.population
        self.datatype = datatype(layout, warehouses, seed)
        self.state = self.datatype.sequential()
        self.now = 1_000
        """Date of the last transaction. Consecutive transactions are one microsecond apart."""

    @property
    def overrides(self) -> dict[Key, Any]:
        """Registers that differ from the population; `ABSENT` marks a deleted one."""
        return self.state.state

    def apply(self, operation: Operation) -> Outcome:
        self.now += 1
        request = Request(self.now, Dot(0, self.now), operation, strong=False)
        return self.state.apply(request)

    def call(self, name: str, *arguments: Any) -> Any:
        outcome = self.apply(self.datatype.call(name, *arguments))
        if outcome.error is not None:
            raise OperationRaised(outcome.error)
        return outcome.value

    def row(self, table: str, *key: int) -> dict[str, Any] | None:
        """Return the row by column name, in any layout, or None."""
        schema = TABLES[table]
        values = self._register(*self._row_key(table, key))
        if values is None:
            return None
        if self.layout == "sql":
            values = values[len(key) :]
        if self.layout == "fine":
            assert len(values) == len(schema.fixed)
            split_columns = schema.mutable + schema.sums
            values = (*values, *(self._register(column, *key) for column in split_columns))
        return dict(zip(schema.columns, values, strict=True))

    def column(self, column: str, table: str, *key: int) -> Any:
        row = self.row(table, *key)
        assert row is not None
        return row[column]

    def set(self, column: str, value: Any, table: str, *key: int) -> None:
        """Overwrite a column; None deletes it."""
        schema = TABLES[table]
        if self.layout == "fine" and column not in schema.fixed:
            self.overrides[column, *key] = ABSENT if value is None else value
            return
        row_key = self._row_key(table, key)
        values = list(self._register(*row_key))
        before = len(key) if self.layout == "sql" else 0
        values[before + schema.columns.index(column)] = value
        self.overrides[row_key] = tuple(values)

    def insert(self, table: str, *key: int, like: tuple[int, ...]) -> None:
        """Add a copy of another row."""
        values = self._register(*self._row_key(table, like))
        if self.layout == "sql":
            values = (*key, *values[len(key) :])
        self.overrides[self._row_key(table, key)] = values
        if self.layout == "fine":
            schema = TABLES[table]
            for column in schema.mutable + schema.sums:
                value = self._register(column, *like)
                if value is not None:
                    self.overrides[column, *key] = value

    def delete(self, table: str, *key: int) -> None:
        self.overrides[self._row_key(table, key)] = ABSENT
        if self.layout == "fine":
            schema = TABLES[table]
            for column in schema.mutable + schema.sums:
                self.overrides[column, *key] = ABSENT

    def _row_key(self, table: str, key: tuple[int, ...]) -> tuple[Any, ...]:
        return ("sql", table, *key) if self.layout == "sql" else (table, *key)

    def _register(self, *key: Any) -> Any:
        value = self.state.read(key)
        return None if value is ABSENT else value


def transaction_mix(
    database: TpccDatabase, seed: int, count: int, clients: int = 20
) -> Iterator[Any]:
    """Yield `count` inputs of `clients` streams, in round-robin order."""
    streams = [
        TransactionInputs(database.datatype, database.population, seed, client)
        for client in range(clients)
    ]
    for number in range(count):
        yield next(streams[number % clients])


def is_uniform(counts: Iterable[int]) -> bool:
    """True if a chi-square test does not reject uniformity at a level of one in a million."""
    observed = list(counts)
    expected = sum(observed) / len(observed)
    statistic = sum((each - expected) ** 2 / expected for each in observed)
    freedom = len(observed) - 1
    # Wilson and Hilferty: the cube root of chi-square / freedom is nearly normal.
    normal = (statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))
    return bool(normal / (2 / (9 * freedom)) ** 0.5 < 4.75)
