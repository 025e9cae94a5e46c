"""Results of SQL statements, as tables for a terminal or as JSON."""

import re
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from creekdb.cli.output import pluralize
from creekdb.dbapi import Cursor, Outcome, OutcomeState
from creekdb.sql.statements import leading_word
from creekdb.wire.json_values import to_json

NULL_TEXT = "NULL"
CHANGING_WORDS = frozenset(("INSERT", "REPLACE", "UPDATE", "DELETE"))
STATE_STYLES = {
    OutcomeState.TENTATIVE: "yellow",
    OutcomeState.STABLE: "green",
    OutcomeState.CHANGED: "bold red",
}
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters by which stored text could control the terminal, or reorder what it shows."""


def printable(text: str) -> str:
    """Escape control characters, except for line feeds and tabs."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def result_table(cursor: Cursor) -> Table | None:
    """Return the rows of the last statement as a table, or None if it returned no columns."""
    if cursor.description is None:
        return None
    rows = cursor.fetchall()
    table = Table(header_style="bold")
    for number, column in enumerate(cursor.description):
        is_number = any(isinstance(row[number], int | float) for row in rows)
        table.add_column(Text(printable(column[0])), justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*map(_cell, row))
    return table


def summary(statement: str, cursor: Cursor, outcome: Outcome | None) -> Text:
    """Return a line with the number of rows and the state of the result."""
    rows = pluralize(max(cursor.rowcount, 0), "row")
    if cursor.description is not None:
        text = Text(rows)
    elif leading_word(statement) in CHANGING_WORDS:
        text = Text(f"{rows} changed")
    else:
        text = Text("done")
    if outcome is not None:
        text.append("  ")
        text.append(outcome.state, STATE_STYLES[outcome.state])
    return text


def result_document(cursor: Cursor, outcome: Outcome | None) -> dict[str, Any]:
    """Return the result as JSON. `state` is None inside a transaction."""
    columns = [column[0] for column in cursor.description or ()]
    return {
        "columns": columns,
        "rows": to_json(cursor.fetchall()) if columns else [],
        "row_count": cursor.rowcount,
        "last_row_id": cursor.lastrowid,
        "state": None if outcome is None else str(outcome.state),
    }


def _cell(value: Any) -> Text:
    if value is None:
        return Text(NULL_TEXT, "dim")
    return Text(f"x'{value.hex()}'" if isinstance(value, bytes) else printable(str(value)))
