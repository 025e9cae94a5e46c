"""SQL on the registers of a transaction: SQLite parses, plans and evaluates; Creek stores.

>>> from creekdb.datatypes.sql import SQL
>>> session = SQL.sequential()
>>> _ = session.call("sql", "CREATE TABLE account(name TEXT PRIMARY KEY, balance INTEGER) STRICT")
>>> _ = session.call("sql", "INSERT INTO account VALUES (?, ?), (?, ?)", ("ann", 5, "bob", 7))
>>> session.call("query", "SELECT name, balance FROM account WHERE balance > ?", (5,))["rows"]
(('bob', 7),)

An operation of a data type that is declared with `sql=True` calls `tx.sql(text, *parameters)` or
`tx.sql(text, **parameters)`, next to `tx.get` and `tx.put`.

Result: `tx.sql` returns a `SqlResult` with `columns`, `rows`, `row_count` and `last_row_id`. The
operations of the data type `sql` return `SqlResult.to_value()`, a dict with these four keys.
`SqlResult.from_value` decodes it.

Values: NULL, INTEGER, REAL, TEXT and BLOB are None, int, float, str and bytes, in parameters and in
rows. A bool parameter counts as 0 or 1. An infinite REAL cannot be stored or sent. Over HTTP a BLOB
is `{"$bytes": "…"}`, like bytes of any operation.

Errors: `SqlError` and its subclasses in `creekdb.errors`, in the words of SQLite, with the line and
column where SQLite reports these. The response of a failed operation starts with the name of the
class. A failed statement has no effect. An operation that catches its error may go on.

Registers: `("sql", table, *key)` holds a row as a tuple, `("sql.index", table, index, *values)` an
index entry, `("sql.sequence", table)` the last id of AUTOINCREMENT, and `("sql.schema",)` the
schema.
"""

from creekdb.sql.result import SqlResult as SqlResult
