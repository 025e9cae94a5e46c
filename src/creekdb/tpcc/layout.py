"""Which registers a row is kept in: two layouts behind one way to reach rows.

`rows`: a register per row, the plain reading of the paper. Whoever writes a row writes all of it:
two Payments, which add to W_YTD, conflict. Who only reads picks the columns that it needs: a
New-Order, which needs W_TAX, does not mind a Payment.

`fine`: what a good engineer would deploy. The fixed columns of a row share a register that nobody
writes; every changing column and every sum has one of its own, and a sum is added to without
looking (`tx.add`). So transactions conflict only where one needs to know what the other did.

The transactions are written over `TableAccess` and `Row` and cannot tell the difference. Three
kinds of registers are the same in both layouts, for they are no rows but ways to find them:

- `customers_named` (w, d, last name): the customers of that name, in the order of first names;
- `last_order` (w, d, c): the number of the customer's last order;
- `oldest_new_order` (w, d): the number of the next order to be delivered, or that of the next
  order to come when all are delivered.

Each conflicts exactly where finding the row by looking at rows would: names never change; who looks
for the last order of a customer has to know of that customer's orders; who delivers has to know of
deliveries, and of new orders only when there is none left.

What comes from clients, such as the parts of a key, is `Any` where a layout is compiled: there a
declared type is checked, and refused in other words than the operation's own.

Finding a customer by number or by last name (clauses 2.5.2.2 and 2.6.2.2).
"""

from typing import Any, Final, Protocol

from creekdb.errors import UnknownName
from creekdb.execution.transaction import Transaction
from creekdb.protocol.values import Key
from creekdb.tpcc.schema import (
    CUSTOMER,
    DISTRICT,
    HISTORY,
    ITEM,
    NEW_ORDER,
    ORDER_LINE,
    ORDERS,
    STOCK,
    WAREHOUSE,
    TableSchema,
)

LAYOUTS: Final = ("rows", "fine")

CUSTOMERS_NAMED: Final = "customers_named"
LAST_ORDER: Final = "last_order"
OLDEST_NEW_ORDER: Final = "oldest_new_order"


class TableRow(Protocol):
    """A row that is there, to be read and changed. Changes hold once it is saved."""

    @property
    def fixed(self) -> tuple[Any, ...]:
        """The fixed columns, and perhaps more after them."""

    def get(self, column: int) -> Any:
        """A changing column or a sum, as changed so far."""

    def set(self, column: int, value: Any) -> None: ...

    def add(self, column: int, amount: int) -> None:
        """Add to a sum."""

    def save(self) -> None: ...


class TableAccess(Protocol):
    """A table. What is not there is a `LookupError`, except for `find`."""

    def find(self, tx: Transaction, *key: int) -> tuple[Any, ...] | None:
        """The fixed columns of a row, and perhaps more after them, or None."""

    def pick(self, tx: Transaction, key: tuple[int, ...], *columns: int) -> tuple[Any, ...]:
        """These fixed columns of a row that is there, and nothing else of it."""

    def value(self, tx: Transaction, column: int, *key: int) -> Any:
        """One changing column or one sum of a row that is there."""

    def row(self, tx: Transaction, *key: int) -> TableRow: ...

    def insert(self, tx: Transaction, key: tuple[int, ...], values: tuple[Any, ...]) -> None:
        """Add a row, with all its columns."""

    def delete(self, tx: Transaction, *key: int) -> None: ...


class TpccTables:
    def __init__(self, layout: str) -> None:
        if layout not in LAYOUTS:
            raise UnknownName("layout", layout, LAYOUTS)
        access = WholeTable if layout == "rows" else SplitTable
        self.warehouse: TableAccess = access(WAREHOUSE)
        self.district: TableAccess = access(DISTRICT)
        self.customer: TableAccess = access(CUSTOMER)
        self.history: TableAccess = access(HISTORY)
        self.new_order: TableAccess = access(NEW_ORDER)
        self.orders: TableAccess = access(ORDERS)
        self.order_line: TableAccess = access(ORDER_LINE)
        self.item: TableAccess = access(ITEM)
        self.stock: TableAccess = access(STOCK)


class WholeRow:
    __slots__ = ("_changed", "_key", "_tx", "fixed")

    def __init__(self, tx: Transaction, key: Key, values: tuple[Any, ...]) -> None:
        self._tx = tx
        self._key = key
        self._changed: list[Any] | None = None
        self.fixed = values

    def get(self, column: int) -> Any:
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
    """Layout `rows`. Implements `TableAccess`."""

    def __init__(self, table: TableSchema) -> None:
        self._name = table.name

    def find(self, tx: Transaction, *key: Any) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = tx.get(_register_key(self._name, key))
        return found

    def pick(self, tx: Transaction, key: tuple[Any, ...], *columns: int) -> tuple[Any, ...]:
        found = tx.pick(_register_key(self._name, key), *columns)
        return _raise_missing(self._name, key) if found is None else found

    def value(self, tx: Transaction, column: int, *key: Any) -> Any:
        return self.pick(tx, key, column)[0]

    def row(self, tx: Transaction, *key: Any) -> TableRow:
        register: Key = _register_key(self._name, key)
        values = tx.get(register)
        return WholeRow(tx, register, _raise_missing(self._name, key) if values is None else values)

    def insert(self, tx: Transaction, key: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        tx.put(_register_key(self._name, key), values)

    def delete(self, tx: Transaction, *key: Any) -> None:
        tx.delete(_register_key(self._name, key))


class SplitRow:
    """Reads and writes at once: there is nothing to gather. Reads the fixed columns if asked."""

    __slots__ = ("_key", "_table", "_tx")

    def __init__(self, tx: Transaction, table: "SplitTable", key: tuple[Any, ...]) -> None:
        self._tx = tx
        self._table = table
        self._key = key

    @property
    def fixed(self) -> tuple[Any, ...]:
        found = self._table.find(self._tx, *self._key)
        return _raise_missing(self._table.name, self._key) if found is None else found

    def get(self, column: int) -> Any:
        return self._tx.get(_register_key(self._table.columns[column], self._key))

    def set(self, column: int, value: Any) -> None:
        self._tx.put(_register_key(self._table.columns[column], self._key), value)

    def add(self, column: int, amount: Any) -> None:
        self._tx.add(_register_key(self._table.columns[column], self._key), amount)

    def save(self) -> None:
        pass


class SplitTable:
    """Layout `fine`. Implements `TableAccess`. A column that is None has no register."""

    def __init__(self, table: TableSchema) -> None:
        self.name = table.name
        self._fixed = len(table.fixed)
        self.columns = table.columns

    def find(self, tx: Transaction, *key: Any) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = tx.get(_register_key(self.name, key))
        return found

    def pick(self, tx: Transaction, key: tuple[Any, ...], *columns: int) -> tuple[Any, ...]:
        found = tx.pick(_register_key(self.name, key), *columns)
        return _raise_missing(self.name, key) if found is None else found

    def value(self, tx: Transaction, column: int, *key: Any) -> Any:
        found = tx.get(_register_key(self.columns[column], key))
        return _raise_missing(self.name, key) if found is None else found

    def row(self, tx: Transaction, *key: Any) -> TableRow:
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


def _register_key(name: str, key: tuple[Any, ...]) -> Key:
    return (name,) + key  # noqa: RUF005 - compiled, to unpack a tuple makes a list of it


def _raise_missing(name: str, key: tuple[Any, ...]) -> tuple[Any, ...]:
    raise LookupError(f"there is no {name} {', '.join(map(str, key))}")


def find_customer(tx: Transaction, w: Any, d: Any, customer: Any) -> int:
    """The number given, or among the customers of the last name given, in the order of their first
    names, the one in the middle: of n the one at n / 2, rounded up, counted from one."""
    if type(customer) is int:
        return customer
    namesakes: tuple[int, ...] | None = tx.get((CUSTOMERS_NAMED, w, d, customer))
    if namesakes is None:
        raise LookupError(f"no customer of district {w}, {d} is called {customer}")
    return namesakes[(len(namesakes) - 1) // 2]
