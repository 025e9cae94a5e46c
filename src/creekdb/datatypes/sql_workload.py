"""Random SQL operations for tests and simulations: two tables, their changes and their schema.

Operations meet in few rows, so that concurrent ones conflict. Some change the schema, while others
use it. Many fail: of a constraint, or because a column is missing on the order at hand.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeAlias

Drawn: TypeAlias = tuple[str, tuple[Any, ...]]
"""Name and arguments of an operation."""

_CREATE: Final = (
    "CREATE TABLE IF NOT EXISTS account(name TEXT PRIMARY KEY, balance INTEGER NOT NULL, "
    "note TEXT, CHECK (balance >= 0)) STRICT",
    "CREATE TABLE IF NOT EXISTS entry(id INTEGER PRIMARY KEY, name TEXT REFERENCES account(name) "
    "ON DELETE CASCADE ON UPDATE CASCADE, amount INTEGER)",
    "CREATE INDEX IF NOT EXISTS entry_by_name ON entry(name, amount)",
    "CREATE TABLE IF NOT EXISTS badge(number INTEGER PRIMARY KEY AUTOINCREMENT, "
    "label TEXT COLLATE NOCASE UNIQUE, size INTEGER AS (length(label)) STORED)",
)
_INSERT: Final = (
    "INSERT INTO account(name, balance) VALUES (?, ?) "
    "ON CONFLICT(name) DO UPDATE SET balance = balance + excluded.balance RETURNING balance"
)
_CHANGES: Final = (
    "UPDATE account SET balance = balance - 1 WHERE name = ? RETURNING balance",
    "UPDATE account SET note = 'seen' WHERE name <> ?",
    "UPDATE account SET note = hex(randomblob(2)) || CURRENT_TIMESTAMP WHERE name = ?",
    "UPDATE account SET name = name || 'x' WHERE name = ?",
    "UPDATE account SET balance = e.n FROM (SELECT name, count(*) AS n FROM entry GROUP BY name) e "
    "WHERE e.name = account.name AND e.name <> ?",
    "INSERT INTO entry(name, amount) VALUES (?, 1)",
    "INSERT INTO entry(name, amount) SELECT name, balance FROM account WHERE name >= ?",
    "DELETE FROM account WHERE name = ?",
    "DELETE FROM entry WHERE name > ?",
    "INSERT INTO badge(label) VALUES (?)",
    "INSERT OR REPLACE INTO badge(label) VALUES (upper(?)), ('eve') RETURNING number, size",
    "INSERT OR IGNORE INTO badge(number, label) VALUES (2, ?)",
    "DELETE FROM badge WHERE label = ? RETURNING *",
)
_QUERIES: Final = (
    "SELECT name, balance FROM account WHERE name <= ? ORDER BY name",
    "SELECT a.name, count(e.id), sum(e.amount) FROM account a LEFT JOIN entry e USING (name) "
    "WHERE a.name <> ? GROUP BY a.name ORDER BY a.name",
    "SELECT note FROM account WHERE name = ?",
    "SELECT amount FROM entry WHERE name = ? ORDER BY amount DESC LIMIT 2",
    "SELECT *, rank() OVER (ORDER BY size) FROM badge WHERE label > ? ORDER BY number",
    "SELECT name FROM account WHERE name = ? AND name NOT IN (SELECT name FROM entry)",
    "SELECT count(*), CURRENT_TIMESTAMP, random() FROM entry WHERE name < ?",
)
_SCHEMA_CHANGES: Final = (
    "ALTER TABLE account ADD COLUMN grade INTEGER DEFAULT 3",
    "ALTER TABLE account DROP COLUMN grade",
    "ALTER TABLE account RENAME COLUMN note TO remark",
    "ALTER TABLE account RENAME COLUMN remark TO note",
    "CREATE UNIQUE INDEX entry_amounts ON entry(name, amount)",
    "DROP INDEX IF EXISTS entry_amounts",
    "DROP INDEX IF EXISTS entry_by_name",
    "CREATE VIEW IF NOT EXISTS rich AS SELECT name FROM account WHERE balance > 2",
    "DROP TABLE IF EXISTS badge",
)


def sample(random: Random) -> Drawn:
    """Draw an operation. Every tenth operation creates the tables."""
    draws, weights = zip(*_KINDS, strict=True)
    draw: Callable[[Random], Drawn] = random.choices(draws, weights)[0]
    return draw(random)


def _draw_name(random: Random) -> str:
    return random.choice(("ann", "bob", "cyd"))


def _create(random: Random) -> Drawn:
    return "transaction", (_CREATE,)


def _insert(random: Random) -> Drawn:
    return "sql", (_INSERT, (_draw_name(random), random.randrange(4)))


def _insert_batch(random: Random) -> Drawn:
    return "batch", (_INSERT, ((_draw_name(random), 1), ("dan", random.randrange(4))))


def _change(random: Random) -> Drawn:
    return "sql", (random.choice(_CHANGES), (_draw_name(random),))


def _change_schema(random: Random) -> Drawn:
    return "sql", (random.choice(_SCHEMA_CHANGES), ())


def _transaction(random: Random) -> Drawn:
    name = _draw_name(random)
    return "transaction", (tuple((random.choice(_CHANGES), (name,)) for _ in range(2)),)


def _script(random: Random) -> tuple[dict[str, Any], ...]:
    name = _draw_name(random)
    return (
        {"sql": random.choice(_CHANGES), "parameters": (name,)},
        {"savepoint": "after_first"},
        {"sql": random.choice((*_CHANGES, *_QUERIES)), "parameters": (name,)},
        {"rollback_to": "after_first"},
    )


def _preview(random: Random) -> Drawn:
    return "preview", (_script(random),)


def _commit(random: Random) -> Drawn:
    return "commit", (_script(random), None, (random.randrange(10**6), 1, 1))


def _queries(random: Random) -> Drawn:
    name = _draw_name(random)
    return "queries", (tuple((text, (name,)) for text in random.sample(_QUERIES, 2)),)


def _query(random: Random) -> Drawn:
    return "query", (random.choice(_QUERIES), (_draw_name(random),))


_KINDS: Final = (
    (_create, 10),
    (_insert, 20),
    (_insert_batch, 5),
    (_change, 33),
    (_change_schema, 4),
    (_transaction, 10),
    (_preview, 4),
    (_commit, 5),
    (_queries, 4),
    (_query, 5),
)
