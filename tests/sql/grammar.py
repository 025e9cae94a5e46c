"""Random SQL statements: a schema, then changes and queries of its tables.

The grammar avoids statements whose result SQLite leaves open. These are bare columns in aggregates
and LIMIT without a total order. An UPDATE of several rows assigns no unique column.
"""

from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any, Final

import apsw

from creekdb.sql.tokens import TokenKind, tokenize

LITERALS: Final = (
    "NULL",
    "0",
    "1",
    "2",
    "5",
    "-3",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775807",
    "1.5",
    "1.0",
    "5.0",
    "-2.25",
    "9.0e18",
    "9007199254740992.0",
    "'a'",
    "'A'",
    "'a '",
    "'b'",
    "'B'",
    "'5'",
    "'05'",
    "'1e1'",
    "'-3'",
    "''",
    "'é'",
    "'\U0010ffff'",
    "'\U0010ffffz'",
    "'it''s'",
    "'sqlite_master'",
    "x''",
    "x'00'",
    "x'61'",
)
PLAIN_TYPES: Final = (
    "INTEGER",
    "INT",
    "TEXT",
    "TEXT COLLATE NOCASE",
    "TEXT COLLATE RTRIM",
    "REAL",
    "BLOB",
    "NUMERIC",
    "",
    "VARCHAR(10)",
    "DOUBLE",
)
STRICT_TYPES: Final = ("INTEGER", "REAL", "TEXT", "TEXT COLLATE NOCASE", "BLOB", "ANY")
_ACTIONS: Final = ("CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT")
ACTIONS: Final = ("", *[f"ON DELETE {action}" for action in _ACTIONS])
UPDATE_ACTIONS: Final = ("", *[f"ON UPDATE {action}" for action in _ACTIONS])
SPECIAL_NAMES: Final = ("rowid", "deferred", "without")
"""Names of columns that have a meaning elsewhere."""
COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=", "IS", "IS NOT", "==")


_BINDABLE: Final = ("INSERT", "REPLACE", "UPDATE", "DELETE", "SELECT", "WITH")


def bind_literals(statement: str, random: Random) -> tuple[str, tuple[Any, ...]]:
    """Return the statement with some literals replaced by parameters, and these."""
    parts: list[str] = []
    parameters: list[Any] = []
    position, word = 0, ""
    for token in tokenize(statement) if statement.startswith(_BINDABLE) else ():
        word = token.word or word
        is_number_of_column = word in ("BY", "BINARY", "DESC")
        if token.kind is TokenKind.LITERAL and not is_number_of_column and random.random() < 0.4:
            parameters.append(_value_of(token.text))
            parts += (statement[position : token.start], "?")
            position = token.stop
    return "".join((*parts, statement[position:])), tuple(parameters)


@cache
def _value_of(literal: str) -> Any:
    return apsw.Connection(":memory:").execute(f"SELECT {literal}").fetchall()[0][0]


def _representative(column: str) -> str:
    """Return an expression of the value of a column, the same for all equal values.

    SQLite leaves open which of several equal values represents a group.
    """
    is_integer = f"typeof({column}) = 'integer'"
    return f"CASE WHEN {is_integer} THEN {column} + 0.0 ELSE {column} END COLLATE BINARY"


@dataclass
class RandomTable:
    """Table of the schema that the grammar has generated so far."""

    name: str
    columns: list[str]
    types: list[str]
    key: tuple[str, ...] = ()
    """Columns of the primary key."""
    unique: list[tuple[str, ...]] = field(default_factory=list)
    generated: set[str] = field(default_factory=set)
    linked: set[str] = field(default_factory=set)
    """Columns of foreign keys, and columns that these refer to."""
    is_strict: bool = False
    is_autoincrement: bool = False
    is_row_id: bool = False
    """True if the only column of the key is an alias of the row id."""

    @property
    def writable(self) -> list[str]:
        return [column for column in self.columns if column not in self.generated]

    @property
    def free(self) -> list[str]:
        """Columns without a unique constraint, which an UPDATE may change in any order."""
        bound = {column for key in (self.key, *self.unique) for column in key}
        return [column for column in self.writable if column not in bound]


class Grammar:
    """Generator of statements for one database."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.tables: list[RandomTable] = []
        self.indexes: list[str] = []
        self.views: list[str] = []
        self._names = 0
        self._first = self._create_family() if random.random() < 0.5 else []
        """Statements that precede the random ones."""

    def statement(self) -> str:
        """Return the next statement."""
        if self._first:
            return self._first.pop(0)
        if not self.tables:
            return self.create_table()
        choices = (
            (self.create_table, 3 if len(self.tables) < 4 else 0),
            (self.create_index, 4),
            (self.drop, 1),
            (self.alter, 2),
            (self.create_view, 1),
            (self.insert, 40),
            (self.upsert, 8),
            (self.update, 14),
            (self.delete, 7),
            (self.change_parent, 12),
            (self.select, 40),
        )
        (make,) = self.random.choices(
            [choice for choice, _ in choices], [weight for _, weight in choices]
        )
        return make()

    # --- schema ----------------------------------------------------------------------------------

    def create_table(self) -> str:
        random = self.random
        strict = random.random() < 0.3
        types = STRICT_TYPES if strict else PLAIN_TYPES
        count = random.randint(2, 5)
        table = RandomTable(
            self._name("t"),
            [f"c{number}" for number in range(count)],
            [random.choice(types) for _ in range(count)],
        )
        if random.random() < 0.2:
            table.columns[-1] = random.choice(SPECIAL_NAMES)
            table.types[-1] = "ANY" if strict else random.choice(("", "ROWID"))
        table.is_strict = strict
        parts = [self._column(table, number) for number in range(count)]
        kind = random.random()
        if kind < 0.35:
            table.types[0] = "INTEGER"
            table.is_autoincrement = random.random() < 0.3
            auto = " AUTOINCREMENT" if table.is_autoincrement else ""
            parts[0] = f"c0 INTEGER PRIMARY KEY{auto}"
            table.key, table.is_row_id = ("c0",), True
        elif kind < 0.6:
            table.key = ("c0",)
            parts[0] = parts[0].replace("INTEGER", "INT", 1)  # no alias of the row id
            if random.random() < 0.5:
                parts[0] += " PRIMARY KEY"
            else:
                parts.append("PRIMARY KEY (c0)")
        elif kind < 0.8:
            first, second = random.sample(table.columns[:2], 2)
            table.key = (first, second)
            parts.append(f"PRIMARY KEY ({', '.join(table.key)})")
        if random.random() < 0.3:
            unique = tuple(random.sample(table.columns, random.randint(1, 2)))
            if set(unique) != set(table.key):
                table.unique.append(unique)
                parts.append(f"UNIQUE ({', '.join(unique)})")
        if random.random() < 0.2:
            parts.append(f"CHECK ({self.expression([table], 1)} OR c0 IS NOT 77)")
        if self.tables and random.random() < 0.5:
            parts.append(self._foreign_key(table, parts))
        if random.random() < 0.2 and not strict:
            generated = f"g{len(table.columns)}"
            kind_text = random.choice(("STORED", "VIRTUAL"))
            column = random.choice(table.columns)
            parts.insert(count, f"{generated} AS ({column} || 'x') {kind_text}")
            table.columns.append(generated)
            table.types.append("")
            table.generated.add(generated)
        self.tables.append(table)
        return f"CREATE TABLE {table.name}({', '.join(parts)}){' STRICT' if strict else ''}"

    def _create_family(self) -> list[str]:
        """Return statements that create a parent and a child table, with related rows."""
        random = self.random
        declared = random.choice(("INTEGER", "INT", "TEXT", "NUMERIC"))
        parent = RandomTable("parent", ["c0", "c1"], [declared, ""], ("c0",), linked={"c0"})
        parent.is_row_id = declared == "INTEGER"
        child = RandomTable("child", ["c0", "c1", "c2"], ["INTEGER", declared, ""], ("c0",))
        child.is_row_id, child.linked = True, {"c1"}
        last, unique = "c2", random.choice(((), ("c1",), ("c1", "c2"), ("c2",)))
        if random.random() < 0.5:
            last = "c2 AS (c1 % 2)"
            child.generated.add("c2")
        if unique:
            child.unique.append(unique)
        self.tables += [parent, child]
        constraint = f", UNIQUE ({', '.join(unique)})" if unique else ""
        return [
            f"CREATE TABLE parent(c0 {declared} PRIMARY KEY, c1)",
            "INSERT INTO parent VALUES (1, 'a'), (2, 'b'), (3, 'c')",
            f"CREATE TABLE child(c0 INTEGER PRIMARY KEY, c1 {declared} DEFAULT "
            f"{random.choice('1234')} REFERENCES parent {random.choice(ACTIONS)} "
            f"{random.choice(UPDATE_ACTIONS)}, {last}{constraint})",
            "INSERT INTO child(c0, c1) VALUES (1, 1), (2, 2)",
        ]

    def _column(self, table: RandomTable, number: int) -> str:
        random = self.random
        parts = [table.columns[number], table.types[number]]
        if random.random() < 0.15:
            parts.append("NOT NULL")
        if random.random() < 0.3:
            parts.append(f"DEFAULT {random.choice(LITERALS)}")
        return " ".join(parts)

    def _foreign_key(self, table: RandomTable, parts: list[str]) -> str:
        """Return a constraint. Its columns get the types of those that they refer to.

        Between different types, SQLite does not find all children of a parent.
        """
        parent = self.random.choice(self.tables)
        keys = [key for key in (parent.key, *parent.unique) if key]
        if not keys:
            return f"CHECK ({table.columns[0]} IS NOT 78)"
        key = self.random.choice(keys)
        free = [column for column in table.columns if column not in table.key]
        if len(free) < len(key):
            return f"CHECK ({table.columns[0]} IS NOT 79)"
        columns = self.random.sample(free, len(key))
        for column, referenced in zip(columns, key, strict=True):
            number = table.columns.index(column)
            table.types[number] = parent.types[parent.columns.index(referenced)]
            default = self.random.choice(("1", "2", "3"))
            parts[number] = f"{column} {table.types[number]} DEFAULT {default}"
        table.linked |= set(columns)
        parent.linked |= set(key)
        unique = ""
        if self.random.random() < 0.5:
            table.unique.append(tuple(columns))
            unique = f"UNIQUE ({', '.join(columns)}), "
        actions = f"{self.random.choice(ACTIONS)} {self.random.choice(UPDATE_ACTIONS)}"
        return (
            f"{unique}FOREIGN KEY ({', '.join(columns)}) "
            f"REFERENCES {parent.name}({', '.join(key)}) {actions}"
        )

    def create_index(self) -> str:
        table = self.table()
        name = self._name("i")
        columns = self.random.sample(table.columns, self.random.randint(1, 2))
        unique = self.random.random() < 0.15
        parts = [
            column + self.random.choice(("", "", " COLLATE NOCASE", " DESC", " COLLATE BINARY"))
            for column in columns
        ]
        if unique:
            table.unique.append(tuple(columns))
        self.indexes.append(name)
        return (
            f"CREATE {'UNIQUE ' if unique else ''}INDEX {name} ON {table.name}({', '.join(parts)})"
        )

    def drop(self) -> str:
        if self.indexes and self.random.random() < 0.7:
            name = self.indexes.pop(self.random.randrange(len(self.indexes)))
            return f"DROP INDEX {name}"
        if len(self.tables) < 3:
            return f"DROP TABLE IF EXISTS missing{self.random.randrange(3)}"
        table = self.tables.pop(self.random.randrange(len(self.tables)))
        return f"DROP TABLE {table.name}"

    def alter(self) -> str:
        random, table = self.random, self.table()
        kind = random.random()
        if kind < 0.5:
            column = self._name("a")
            default = random.choice(("", f"DEFAULT {random.choice(LITERALS)}"))
            declared = random.choice(("INTEGER", "TEXT", "REAL"))
            table.columns.append(column)
            table.types.append(declared)
            return f"ALTER TABLE {table.name} ADD COLUMN {column} {declared} {default}"
        number = random.randrange(len(table.columns))
        if kind < 0.75:
            old, new = table.columns[number], self._name("r")
            self._rename(table, old, new)
            return f"ALTER TABLE {table.name} RENAME COLUMN {old} TO {new}"
        if kind < 0.85:
            old_name, table.name = table.name, self._name("t")
            return f"ALTER TABLE {old_name} RENAME TO {table.name}"
        free = [column for column in table.free if len(table.columns) > 2]
        if not free:
            return self.select()
        return f"ALTER TABLE {table.name} DROP COLUMN {random.choice(free)}"

    def _rename(self, table: RandomTable, old: str, new: str) -> None:
        def renamed(columns: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(new if column == old else column for column in columns)

        table.columns = list(renamed(tuple(table.columns)))
        table.key = renamed(table.key)
        table.unique = [renamed(columns) for columns in table.unique]
        table.linked = set(renamed(tuple(table.linked)))
        if old in table.generated:
            table.generated = {new if column == old else column for column in table.generated}

    def create_view(self) -> str:
        name, table, other = self._name("v"), self.table(), self.table()
        self.views.append(name)
        query = f"SELECT * FROM {table.name} WHERE {self.condition([table])}"
        if self.random.random() < 0.4:
            column = self.random.choice(other.columns)
            query = (
                f"SELECT {self.random.choice(table.columns)} AS k, "
                f"(SELECT count(*) FROM {other.name} AS o WHERE o.{column} IS NOT NULL) AS n "
                f"FROM {table.name}"
            )
        return f"CREATE VIEW {name} AS {query}"

    def apply(self, statement: str, succeeded: bool) -> None:
        """Correct the schema of the grammar by the fate of a statement."""
        words = statement.split()
        if succeeded and words[:1] == ["ALTER"] and words[3:5] == ["DROP", "COLUMN"]:
            for table in self.tables:
                if table.name == words[2]:
                    number = table.columns.index(words[5])
                    del table.columns[number], table.types[number]
        if not succeeded and words[:2] == ["CREATE", "TABLE"]:
            self.tables.pop()

    # --- changes ---------------------------------------------------------------------------------

    def insert(self) -> str:
        random, table = self.random, self.table()
        word = random.choice(("INSERT", "INSERT", "INSERT OR FAIL", "INSERT OR IGNORE", "REPLACE"))
        # SQLite checks types after it ignores a row, and OR FAIL does not advance its sequence.
        if table.is_strict or (table.is_autoincrement and word == "INSERT OR FAIL"):
            word = "INSERT"
        columns = table.writable
        if random.random() < 0.4 and len(columns) > 1:
            count = random.randint(1, len(columns) - 1)
            columns = sorted({*random.sample(columns, count), *table.key[:1]})
        listed = f"({', '.join(columns)})"
        if columns == table.columns and random.random() < 0.5:
            listed = ""
        if random.random() < 0.12:
            source = self._rows_of_another_table(table, columns)
        else:
            rows = [
                f"({', '.join(self._value(table, column) for column in columns)})"
                for _ in range(random.choice((1, 1, 2, 3)))
            ]
            source = f"VALUES {', '.join(rows)}"
        return f"{word} INTO {table.name}{listed} {source}{self.returning(table)}"

    def _rows_of_another_table(self, table: RandomTable, columns: list[str]) -> str:
        origin = self.table()
        selected = ", ".join(
            str(self.random.randrange(100, 200))
            if table.is_row_id and column == table.key[0]
            else self.random.choice((*origin.columns, self.random.choice(LITERALS)))
            for column in columns
        )
        order = ", ".join(str(number + 1) for number in range(len(columns)))
        return f"SELECT {selected} FROM {origin.name} WHERE true ORDER BY {order} LIMIT 3"

    def _value(self, table: RandomTable, column: str) -> str:
        random = self.random
        if table.is_row_id and column == table.key[0]:
            if table.is_autoincrement and random.random() < 0.5:
                return "NULL"
            return random.choice(("1", "2", "3", "4", "5", "'7'", "8.0", "-1", "1.5", "'x'"))
        if column in table.linked and random.random() < 0.8:
            return random.choice(("NULL", "1", "2", "3"))
        kind = random.random()
        if kind < 0.1:
            return f"{random.choice(LITERALS)} || 'z'"
        if kind < 0.3:
            return str(random.randrange(4))
        if kind < 0.5:
            return random.choice(("'a'", "'b'", "'c'", "'A'"))
        return random.choice(LITERALS)

    def _typed_value(self, table: RandomTable, column: str) -> str:
        if table.is_row_id and column == table.key[0]:
            return str(self.random.randrange(4))
        declared = table.types[table.columns.index(column)].split(" ")[0]
        values = {"INTEGER": "12", "REAL": "12", "BLOB": ("x'61'", "x'62'"), "TEXT": ("'a'", "'b'")}
        return self.random.choice(values.get(declared, "12"))

    def upsert(self) -> str:
        random, table = self.random, self.table()
        keys = [key for key in (table.key, *table.unique) if key]
        columns = table.writable
        # SQLite checks the types of a STRICT row only if it does not update another row instead.
        value = self._typed_value if table.is_strict else self._value
        values = ", ".join(value(table, column) for column in columns)
        head = f"INSERT INTO {table.name}({', '.join(columns)}) VALUES ({values}) ON CONFLICT"
        if not keys or random.random() < 0.3:
            return f"{head} DO NOTHING{self.returning(table)}"
        key = random.choice(keys)
        free = table.free
        if not free or random.random() < 0.3:
            return f"{head}({', '.join(key)}) DO NOTHING{self.returning(table)}"
        column = random.choice(free)
        assigned = random.choice(
            (f"excluded.{column}", f"{table.name}.{column}", f"coalesce({column}, 0) || 'u'", "1")
        )
        where = f" WHERE {self.condition([table])}" if random.random() < 0.3 else ""
        target = ", ".join(key)
        return f"{head}({target}) DO UPDATE SET {column} = {assigned}{where}{self.returning(table)}"

    def update(self) -> str:
        random, table = self.random, self.table()
        free = table.free
        if not free or random.random() < 0.2:
            return self._update_of_one_row(table)
        if random.random() < 0.15:
            return self._update_from_another_table(table)
        columns = random.sample(free, random.randint(1, len(free)))
        values = [self.expression([table], 2) for _ in columns]
        word = random.choice(("UPDATE", "UPDATE", "UPDATE OR IGNORE"))
        if table.is_strict:
            word = "UPDATE"
        if len(columns) > 1 and random.random() < 0.3:
            assigned = f"({', '.join(columns)}) = ({', '.join(values)})"
        else:
            assigned = ", ".join(
                f"{column} = {value}" for column, value in zip(columns, values, strict=True)
            )
        where = f" WHERE {self.condition([table])}" if random.random() < 0.8 else ""
        return f"{word} {table.name} SET {assigned}{where}{self.returning(table)}"

    def _update_from_another_table(self, table: RandomTable) -> str:
        """Join each row with at most one other row, because SQLite would choose one of several."""
        random, other = self.random, self.table()
        key, value = random.choice(other.columns), random.choice(other.columns)
        groups = (
            f"SELECT CAST({key} AS TEXT) AS k, max({_representative(value)}) AS m, count(*) AS n "
            f"FROM {other.name} GROUP BY 1"
        )
        assigned = f"{random.choice(table.free)} = {random.choice(('o.m', 'o.n', 'o.m'))}"
        joined = f"o.k = CAST({table.name}.{random.choice(table.columns)} AS TEXT)"
        where = f" AND {self.condition([table], 1)}" if random.random() < 0.3 else ""
        return (
            f"UPDATE {table.name} SET {assigned} FROM ({groups}) AS o "
            f"WHERE {joined}{where}{self.returning(table)}"
        )

    def _update_of_one_row(self, table: RandomTable) -> str:
        # SQLite assigns an id of AUTOINCREMENT again if an update set it.
        columns = table.writable[1:] if table.is_autoincrement else table.writable
        column = self.random.choice(columns)
        key = table.key or (table.writable[0],)
        condition = " AND ".join(f"{each} = {self._value(table, each)}" for each in key)
        if not table.key:
            condition += " AND false"
        value = self._value(table, column)
        word = self.random.choice(("UPDATE", "UPDATE", "UPDATE OR FAIL"))
        return f"{word} {table.name} SET {column} = {value} WHERE {condition}"

    def delete(self) -> str:
        table = self.table()
        condition = f"{self.condition([table])} AND {self.condition([table])}"
        return f"DELETE FROM {table.name} WHERE {condition}{self.returning(table)}"

    def change_parent(self) -> str:
        """Insert, update or delete a row to which others may refer."""
        random = self.random
        tables = [
            table
            for table in self.tables
            if table.linked & {*table.key} and not table.is_autoincrement
        ]
        if not tables:
            return self.insert()
        table = random.choice(tables)
        key = random.choice(sorted(table.linked & {*table.key}))
        old, new = random.sample(("1", "2", "3", "4"), 2)
        if random.random() < 0.4:
            return f"DELETE FROM {table.name} WHERE {key} = {old}"
        return f"UPDATE {table.name} SET {key} = {new} WHERE {key} = {old}"

    def returning(self, table: RandomTable) -> str:
        if self.random.random() < 0.7:
            return ""
        if self.random.random() < 0.5 and not (table.is_row_id or not table.key):
            return " RETURNING *"
        return f" RETURNING {self.expression([table], 1)} AS r"

    # --- queries ---------------------------------------------------------------------------------

    def select(self) -> str:
        random = self.random
        kind = random.random()
        if kind < 0.45:
            return self._plain_select()
        if kind < 0.6:
            return self._join()
        if kind < 0.75:
            return self._aggregate()
        if kind < 0.82:
            operator = random.choice(("UNION", "UNION ALL", "EXCEPT", "INTERSECT"))
            left, right = self.table(), self.table()
            return (
                f"SELECT {_representative(left.columns[0])} FROM {left.name} {operator} "
                f"SELECT {_representative(right.columns[-1])} FROM {right.name}"
            )
        if kind < 0.9:
            table = self.table()
            column, other = random.choice(table.columns), random.choice(table.columns)
            return (
                f"SELECT {column}, count(*) OVER (PARTITION BY {other}), "
                f"rank() OVER (ORDER BY {column}) FROM {table.name}"
            )
        if self.views and kind < 0.96:
            return self._select_from_view(random.choice(self.views))
        table = self.table()
        return (
            f"WITH q AS (SELECT {table.columns[0]} AS k FROM {table.name}) "
            f"SELECT k, (SELECT count(*) FROM q AS r WHERE r.k = q.k) FROM q"
        )

    def _plain_select(self) -> str:
        random, table = self.random, self.table()
        # SQLite leaves open which of several equal values it returns, or returns first.
        is_collated = any("COLLATE" in declared for declared in table.types)
        distinct = "DISTINCT " if random.random() < 0.2 and not is_collated else ""
        columns = [self.expression([table], 2) for _ in range(random.randint(1, 3))]
        if random.random() < 0.3:
            columns = list(table.columns)
        text = f"SELECT {distinct}{', '.join(columns)} FROM {table.name}"
        if random.random() < 0.85:
            text += f" WHERE {self.condition([table])}"
        if random.random() < 0.5:
            numbers = list(range(1, len(columns) + 1))
            random.shuffle(numbers)
            binary = " COLLATE BINARY" if is_collated else ""
            order = ", ".join(
                f"{number}{binary}{random.choice(('', ' DESC'))}" for number in numbers
            )
            text += f" ORDER BY {order}"
            if random.random() < 0.4:
                text += f" LIMIT {random.randrange(4)}"
        elif random.random() < 0.3:
            text += f" ORDER BY {random.choice(table.columns)} {random.choice(('', 'DESC'))}"
        return text

    def _select_from_view(self, view: str) -> str:
        table = self.table()
        return self.random.choice(
            (
                f"SELECT * FROM {view}",
                f"SELECT * FROM main.{view} WHERE k IN {view}",
                f"SELECT k, n FROM {view} WHERE k IN (SELECT {table.columns[0]} FROM {table.name})",
                f"SELECT {table.columns[0]} FROM {table.name} WHERE 2 < (SELECT n FROM {view})",
                f"SELECT n, count(*) FROM {view} JOIN {table.name} ON k = {table.columns[-1]}",
            )
        )

    def _join(self) -> str:
        random = self.random
        left, right = self.table(), self.table()
        kind = random.choice(("JOIN", "LEFT JOIN", "JOIN", "FULL JOIN"))
        on = (
            f"l.{random.choice(left.columns)} {random.choice(COMPARISONS)} "
            f"r.{random.choice(right.columns)}"
        )
        where = ""
        if random.random() < 0.5:
            where = f" WHERE l.{random.choice(left.columns)} {random.choice(COMPARISONS)} "
            where += random.choice(LITERALS)
        return (
            f"SELECT l.{random.choice(left.columns)}, r.{random.choice(right.columns)} "
            f"FROM {left.name} AS l {kind} {right.name} AS r ON {on}{where}"
        )

    def _aggregate(self) -> str:
        random, table = self.random, self.table()
        column, other = random.choice(table.columns), random.choice(table.columns)
        function = random.choice(("count", "min", "max", "count"))
        value = _representative(column)
        having = random.choice(("", " HAVING count(*) > 1"))
        if random.random() < 0.4:
            where = f" WHERE {self.condition([table])}"
            return f"SELECT count(*), {function}({value}) FROM {table.name}{where}"
        return (
            f"SELECT {_representative(other)}, {function}({value}) FROM {table.name} "
            f"GROUP BY {other} COLLATE BINARY{having}"
        )

    def condition(self, tables: list[RandomTable], depth: int = 2) -> str:
        random = self.random
        kind = random.random()
        column = random.choice(tables[0].columns)
        if kind < 0.35:
            return f"{column} {random.choice(COMPARISONS)} {random.choice(LITERALS)}"
        if kind < 0.45:
            values = ", ".join(random.sample(LITERALS, random.randint(1, 4)))
            return f"{column} {random.choice(('', 'NOT '))}IN ({values})"
        if kind < 0.52:
            return f"{column} BETWEEN {random.choice(LITERALS)} AND {random.choice(LITERALS)}"
        if kind < 0.58:
            return f"{column} IS {random.choice(('', 'NOT '))}NULL"
        if kind < 0.64:
            return (
                f"{column} LIKE {random.choice(('1', 'a%', '%', '_', 'A', '5%')).join(2 * chr(39))}"
            )
        if kind < 0.7:
            other = random.choice(self.tables)
            return f"{column} IN (SELECT {random.choice(other.columns)} FROM {other.name})"
        if kind < 0.76:
            other = random.choice(self.tables)
            inner = random.choice(other.columns)
            return f"EXISTS (SELECT 1 FROM {other.name} AS e WHERE e.{inner} = {column})"
        if kind < 0.9 and depth:
            operator = random.choice(("AND", "OR"))
            left, right = self.condition(tables, depth - 1), self.condition(tables, depth - 1)
            return f"({left} {operator} {right})"
        return f"{self.expression(tables, 1)} {random.choice(COMPARISONS)} {column}"

    def expression(self, tables: list[RandomTable], depth: int) -> str:
        random = self.random
        column = random.choice(random.choice(tables).columns)
        kind = random.random()
        if kind < 0.4 or not depth:
            return column
        if kind < 0.55:
            return random.choice(LITERALS)
        inner = self.expression(tables, depth - 1)
        if kind < 0.65:
            return f"{random.choice(('length', 'typeof', 'upper', 'quote', 'lower'))}({inner})"
        if kind < 0.72:
            return f"coalesce({inner}, {random.choice(LITERALS)})"
        if kind < 0.8:
            return f"({inner} {random.choice(('+', '-', '||', '%'))} {random.choice(LITERALS)})"
        if kind < 0.88:
            condition = f"{column} {random.choice(COMPARISONS)} {random.choice(LITERALS)}"
            return f"CASE WHEN {condition} THEN {inner} ELSE {random.choice(LITERALS)} END"
        if kind < 0.94:
            return f"CAST({inner} AS {random.choice(('INTEGER', 'TEXT', 'REAL'))})"
        return f"({inner} {random.choice(COMPARISONS)} {random.choice(LITERALS)})"

    def table(self) -> RandomTable:
        return self.random.choice(self.tables)

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"
