"""Mapping of rows to registers: two layouts behind one interface to rows, and one of SQL.

`rows`: a register per row, the plain reading of the paper. A transaction that writes a row writes
the whole row. Two Payments, which both add to W_YTD, conflict. A transaction that only reads a row
picks the columns that it needs. A New-Order, which needs W_TAX, does not conflict with a Payment.

`fine`: the layout of a production deployment. The fixed columns of a row share a register that is
never written. Every mutable column and every sum has a register of its own, and additions to a sum
are blind (`tx.add`). So two transactions conflict only if one depends on an effect of the other.

`sql`: the registers of SQL tables (`creekdb.sql`). Its transactions are SQL statements
(`creekdb.tpcc.sql_transactions`). They conflict like those of `rows`.

The transactions of `rows` and `fine` use `TpccTables` and its rows, independently of the layout.
Three kinds of registers are the same in both layouts, because they are indexes and not rows:

- `customers_named` (w, d, last name): the customers with that name, ordered by first name;
- `last_order` (w, d, c): the number of the customer's last order;
- `oldest_new_order` (w, d): the number of the next order to deliver, or that of the district's
  next order if all are delivered.

Each index conflicts exactly where a scan of the rows would. Names never change. A search for the
last order of a customer depends on the orders of that customer. A delivery depends on other
deliveries, and on new orders only if none is left. In the layout `sql`, the first two are indexes
of SQL, and the third is a table: a search for the least number would pass all deleted rows.

Values that come from clients, such as the parts of a key, have the type `Any`. Compiled code checks
declared types, and would fail with another error than the operation's own.

Customers are found by number or by last name (clauses 2.5.2.2 and 2.6.2.2).
"""

from typing import Any, Final, TypeAlias

from creekdb.errors import UnknownName
from creekdb.execution.transaction import Transaction
from creekdb.protocol.values import Key
from creekdb.sql.catalog import INDEX_PREFIX, ROW_PREFIX
from creekdb.tpcc.schema import (
    CUSTOMER,
    DISTRICT,
    HISTORY,
    ITEM,
    NEW_ORDER,
    ORDER_LINE,
    ORDERS,
    STOCK,
    TABLES,
    WAREHOUSE,
    TableSchema,
)

LAYOUTS: Final = ("rows", "fine", "sql")

CUSTOMERS_NAMED: Final = "customers_named"
LAST_ORDER: Final = "last_order"
OLDEST_NEW_ORDER: Final = "oldest_new_order"

Prefix: TypeAlias = tuple[str, ...]
"""First components of the keys of a table or index."""


def register_prefixes(layout: str) -> dict[str, tuple[Prefix, ...]]:
    """Return the prefixes of the keys of each table and index. The first one is that of the rows.

    The parts of a row's key follow the prefix. Index registers of the layout `sql` continue with
    further parts.
    """
    check_layout(layout)
    indexes = (CUSTOMERS_NAMED, LAST_ORDER, OLDEST_NEW_ORDER)
    if layout == "sql":
        prefixes: dict[str, tuple[Prefix, ...]] = {name: ((ROW_PREFIX, name),) for name in TABLES}
        prefixes[CUSTOMERS_NAMED] = ((INDEX_PREFIX, CUSTOMER.name, CUSTOMERS_NAMED),)
        prefixes[LAST_ORDER] = ((INDEX_PREFIX, ORDERS.name, LAST_ORDER),)
        prefixes[OLDEST_NEW_ORDER] = ((ROW_PREFIX, OLDEST_NEW_ORDER),)
        return prefixes
    prefixes = {name: ((name,),) for name in (*TABLES, *indexes)}
    if layout == "fine":
        for name, table in TABLES.items():
            split = table.mutable + table.sums
            prefixes[name] = ((name,), *((column,) for column in split))
    return prefixes


def check_layout(layout: str) -> None:
    """Raise `UnknownName` unless the layout exists."""
    if layout not in LAYOUTS:
        raise UnknownName("layout", layout, LAYOUTS)


class WholeRow:
    """Row of the layout `rows`, for reads and updates. Updates take effect with `save`."""

    __slots__ = ("_changed", "_key", "_tx", "fixed")

    def __init__(self, tx: Transaction, key: Key, values: tuple[Any, ...]) -> None:
        self._tx = tx
        self._key = key
        self._changed: list[Any] | None = None
        self.fixed = values
        """The fixed columns, followed by all others."""

    def get(self, column: int) -> Any:
        """Return a mutable column or a sum, including unsaved updates."""
        return (self._changed or self.fixed)[column]

    def set(self, column: int, value: Any) -> None:
        if self._changed is None:
            self._changed = list(self.fixed)
        self._changed[column] = value

    def add(self, column: int, amount: Any) -> None:
        if self._changed is None:
            self._changed = list(self.fixed)
        self._changed[column] += amount

    def save(self) -> None:
        if self._changed is not None:
            self._tx.put(self._key, tuple(self._changed))


class WholeTable:
    """Table of the layout `rows`. All methods but `find` raise `LookupError` without the row."""

    def __init__(self, table: TableSchema) -> None:
        self.name = table.name

    def find(self, tx: Transaction, *key: Any) -> tuple[Any, ...] | None:
        """Return the fixed columns of a row, possibly followed by others, or None."""
        row: tuple[Any, ...] | None = tx.get(_register_key(self.name, key))
        return row

    def pick(self, tx: Transaction, key: tuple[Any, ...], *columns: int) -> tuple[Any, ...]:
        """Return these fixed columns of an existing row, and read no others."""
        picked = tx.pick(_register_key(self.name, key), *columns)
        return _raise_missing(self.name, key) if picked is None else picked

    def value(self, tx: Transaction, column: int, *key: Any) -> Any:
        """Return one mutable column or one sum of an existing row."""
        return self.pick(tx, key, column)[0]

    def row(self, tx: Transaction, *key: Any) -> "WholeRow | SplitRow":
        register: Key = _register_key(self.name, key)
        values = tx.get(register)
        return WholeRow(tx, register, _raise_missing(self.name, key) if values is None else values)

    def insert(self, tx: Transaction, key: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Add a row with all its columns."""
        tx.put(_register_key(self.name, key), values)

    def delete(self, tx: Transaction, *key: Any) -> None:
        tx.delete(_register_key(self.name, key))


class SplitRow:
    """Row of the layout `fine`, with the methods of `WholeRow`.

    Every access reads or writes its register immediately.
    """

    __slots__ = ("_key", "_table", "_tx")

    def __init__(self, tx: Transaction, table: "SplitTable", key: tuple[Any, ...]) -> None:
        self._tx = tx
        self._table = table
        self._key = key

    @property
    def fixed(self) -> tuple[Any, ...]:
        columns = self._table.find(self._tx, *self._key)
        return _raise_missing(self._table.name, self._key) if columns is None else columns

    def get(self, column: int) -> Any:
        return self._tx.get(_register_key(self._table.columns[column], self._key))

    def set(self, column: int, value: Any) -> None:
        self._tx.put(_register_key(self._table.columns[column], self._key), value)

    def add(self, column: int, amount: Any) -> None:
        self._tx.add(_register_key(self._table.columns[column], self._key), amount)

    def save(self) -> None:
        pass


class SplitTable(WholeTable):
    """Table of the layout `fine`. A column with the value None has no register."""

    def __init__(self, table: TableSchema) -> None:
        super().__init__(table)
        self._fixed = len(table.fixed)
        self.columns = table.columns

    def value(self, tx: Transaction, column: int, *key: Any) -> Any:
        current = tx.get(_register_key(self.columns[column], key))
        return _raise_missing(self.name, key) if current is None else current

    def row(self, tx: Transaction, *key: Any) -> SplitRow:
        return SplitRow(tx, self, key)

    def insert(self, tx: Transaction, key: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        tx.put(_register_key(self.name, key), values[: self._fixed])
        for column in range(self._fixed, len(values)):
            if values[column] is not None:
                tx.put(_register_key(self.columns[column], key), values[column])

    def delete(self, tx: Transaction, *key: Any) -> None:
        tx.delete(_register_key(self.name, key))
        for column in self.columns[self._fixed :]:
            tx.delete(_register_key(column, key))


class TpccTables:
    """Tables of the layouts `rows` and `fine`."""

    def __init__(self, layout: str) -> None:
        assert layout in ("rows", "fine"), "SQL accesses the tables of other layouts"
        access = WholeTable if layout == "rows" else SplitTable
        self.warehouse = access(WAREHOUSE)
        self.district = access(DISTRICT)
        self.customer = access(CUSTOMER)
        self.history = access(HISTORY)
        self.new_order = access(NEW_ORDER)
        self.orders = access(ORDERS)
        self.order_line = access(ORDER_LINE)
        self.item = access(ITEM)
        self.stock = access(STOCK)


def _register_key(name: str, key: tuple[Any, ...]) -> Key:
    return (name,) + key  # noqa: RUF005 - mypyc compiles unpacking to a temporary list


def _raise_missing(name: str, key: tuple[Any, ...]) -> tuple[Any, ...]:
    raise LookupError(f"there is no {name} {', '.join(map(str, key))}")


def find_customer(tx: Transaction, w: Any, d: Any, customer: Any) -> int:
    """Return the customer's number, given the number or a last name.

    A last name selects the middle one of its n customers, ordered by first name: the one at
    position n / 2, rounded up, counted from 1.
    """
    if type(customer) is int:
        return customer
    namesakes: tuple[int, ...] | None = tx.get((CUSTOMERS_NAMED, w, d, customer))
    if namesakes is None:
        raise LookupError(f"no customer of district {w}, {d} is called {customer}")
    return namesakes[(len(namesakes) - 1) // 2]
