"""Workers: pairs of SQLite connections for one schema, and the pool of them.

A worker has a connection with a virtual table for each table, which queries the registers, and a
probe (`creekdb.sql.probe`). To open one takes longer than most statements, so workers are kept by
schema and shared by all operations of the process. A worker serves one statement at a time.
"""

from typing import Any, Final

import apsw

from creekdb.errors import SqlTypeError
from creekdb.sql.catalog import Schema, Table
from creekdb.sql.changes.row_writer import Row
from creekdb.sql.connection import (
    RESULT_BYTES_MAX,
    InstructionMeter,
    Session,
    SessionSlot,
    allow_queries,
    fetch_rows,
    open_connection,
)
from creekdb.sql.key_codec import SqlValue
from creekdb.sql.probe import Probe
from creekdb.sql.queries.virtual_tables import (
    CHANGED_PREFIX,
    EXCLUDED_PREFIX,
    ROWS_MODULE,
    STORED_MODULE,
    RowModule,
    StoredModule,
)
from creekdb.sql.sqlite_errors import translate
from creekdb.sql.tokens import quote_name

IDLE_MAX: Final = 4
"""Maximum number of idle workers per schema."""
SCHEMAS_MAX: Final = 16
"""Maximum number of schemas with idle workers. The least recently used one is dropped."""
COMPILED_MAX: Final = 1000
"""Maximum number of compiled statements per worker."""


class Worker:
    """Connections for the statements of one schema."""

    def __init__(self, encoded: bytes, result_bytes_max: int = RESULT_BYTES_MAX) -> None:
        self.encoded = encoded
        self._result_bytes_max = result_bytes_max
        schema = Schema.decode(encoded) if encoded else Schema()
        self.slot = SessionSlot()
        self.probe = Probe(schema, self.slot)
        self.catalog = self.probe.catalog(schema)
        self.compiled: dict[str, Any] = {}
        """Compiled statements by text."""
        self._row_module = RowModule(self.catalog)
        self.connection = open_connection(self.slot)
        self._meter = InstructionMeter(self.connection, self.slot, result_bytes_max)
        self._probe_meter = InstructionMeter(self.probe.connection, self.slot, result_bytes_max)
        self._create_virtual_tables(schema)

    def _create_virtual_tables(self, schema: Schema) -> None:
        connection = self.connection
        stored, rows = StoredModule(self.catalog, self.slot), self._row_module
        for name, module in ((STORED_MODULE, stored), (ROWS_MODULE, rows)):
            module_port: Any = module
            connection.create_module(name, module_port, use_bestindex_object=True, read_only=True)
        for table in self.catalog.tables.values():
            for prefix, name in (
                ("", STORED_MODULE),
                (CHANGED_PREFIX, ROWS_MODULE),
                (EXCLUDED_PREFIX, ROWS_MODULE),
            ):
                quoted = quote_name(prefix + table.name)
                connection.execute(f"CREATE VIRTUAL TABLE {quoted} USING {name}()")
        for entry in schema.entries:
            if entry.kind == "view":
                connection.execute(entry.sql)
        connection.authorizer = allow_queries

    @property
    def session(self) -> Session:
        """Session of the current statement."""
        return self.slot.current

    def query(
        self, text: str, bindings: tuple[Any, ...] = (), is_bounded: bool = True
    ) -> list[tuple[SqlValue, ...]]:
        """Return all rows of a query on the registers.

        `is_bounded` is True if the instructions of the query need not be counted.
        """
        self.slot.text = text
        try:
            if not is_bounded:
                return self._meter.execute(text, bindings)
            return fetch_rows(self.connection.execute(text, bindings), self._result_bytes_max)
        except (apsw.Error, UnicodeError) as error:
            raise translate(error, text) from None

    def describe(self, text: str, bindings: tuple[Any, ...]) -> list[tuple[SqlValue, ...]]:
        """Return all rows of a query on the schema."""
        try:
            return self._probe_meter.execute(text, bindings)
        except (apsw.Error, UnicodeError) as error:
            raise translate(error, text) from None

    def find(self, table: Table, query: str, values: tuple[SqlValue, ...]) -> list[Row]:
        """Return the keys of the rows that a query finds with these values."""
        found = self.query(query, values)
        return [Row(table.selected_key_parts(key), ()) for key in found]

    def set_changed(self, table: Table, rows: list[Row]) -> None:
        """Set the rows of the table with the changed rows."""
        self._set_rows(CHANGED_PREFIX, table, rows)

    def set_excluded(self, table: Table, rows: list[Row]) -> None:
        """Set the rows of the table `excluded` of an UPSERT."""
        self._set_rows(EXCLUDED_PREFIX, table, rows)

    def _set_rows(self, prefix: str, table: Table, rows: list[Row]) -> None:
        name = prefix + table.name.lower()
        self._row_module.rows[name] = [(row.row_id(table), row.values) for row in rows]


class WorkerPool:
    """Idle workers by schema."""

    def __init__(self) -> None:
        self._idle: dict[bytes, list[Worker]] = {}

    def take(self, encoded: bytes) -> Worker:
        """Return an idle worker for this schema, or a new one."""
        idle = self._idle.get(encoded)
        if idle:
            try:
                return idle.pop()
            except IndexError:  # another thread has taken the last one
                pass
        return Worker(encoded)

    def give_back(self, worker: Worker) -> None:
        """Make a worker available again."""
        worker.slot.session = None
        idle = self._idle.pop(worker.encoded, None)
        if idle is None:
            idle = []
        if len(idle) < IDLE_MAX:
            idle.append(worker)
        self._idle[worker.encoded] = idle
        while len(self._idle) > SCHEMAS_MAX:
            self._idle.pop(next(iter(self._idle)), None)


def check_parameters(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the parameters as SQL values, or raise `SqlTypeError`."""
    checked = values
    for number, value in enumerate(values):
        kind = type(value)
        if kind is str or value is None or kind is float or kind is bytes:
            continue
        if kind is int and -(2**63) <= value < 2**63:
            continue
        if kind is bool:
            checked = (*checked[:number], int(value), *checked[number + 1 :])
            continue
        problem = "an integer beyond 64 bits" if kind is int else f"a {kind.__name__}"
        remedy = "use None, int, float, str or bytes"
        if kind is tuple or kind is list or kind is dict:
            remedy = "give each value separately, as in tx.sql(text, 5, 'ann')"
        raise SqlTypeError(f"parameter {number + 1} is {problem}; {remedy}")
    return checked
