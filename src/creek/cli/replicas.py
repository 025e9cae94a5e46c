"""How the replicas of a live cluster are, as a table."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from rich.table import Table

_NOTHING = "-"


class Row(NamedTuple):
    """A replica: where clients find it, and what it says of itself, or why it does not."""

    name: str
    address: str
    status: Mapping[str, Any] | None
    state: str = "up"
    rate: float | None = None


def replicas_table(rows: list[Row], with_rate: bool = False) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("replica", "clients at", "leader", "connected", "committed", "lag", "tentative"):
        table.add_column(name, justify="left" if name == "clients at" else "right")
    if with_rate:
        table.add_column("ops/s", justify="right")
    table.add_column("digest")
    table.add_column("state")
    known = [row.status["committed"] for row in rows if row.status is not None]
    most = max(known, default=0)
    for row in rows:
        cells = _cells(row, most, with_rate)
        table.add_row(row.name, row.address, *cells, row.state, style=_style(row))
    return table


def _cells(row: Row, most: int, with_rate: bool) -> list[str]:
    status = row.status
    if status is None:
        return [_NOTHING] * (7 if with_rate else 6)
    leader = status["leader"]
    cells = [
        _NOTHING if leader is None else "itself" if leader == status["replica"] else str(leader),
        ",".join(map(str, status["connected"])) or _NOTHING,
        f"{status['committed']:,}",
        f"{most - status['committed']:,}",
        f"{status['tentative']:,}",
    ]
    if with_rate:
        cells.append(_NOTHING if row.rate is None else f"{row.rate:,.0f}")
    return [*cells, _digest(status["digests"])]


def _digest(digests: Mapping[str, Any]) -> str:
    if digests["differs_from"]:
        return f"DIFFERS from {','.join(map(str, digests['differs_from']))}"
    if digests["digest"] is None:
        return _NOTHING
    return f"{digests['digest'][:8]} at {digests['agreed']:,}"


def state_of(status: Mapping[str, Any]) -> str:
    """In a word, or in what is wrong."""
    if status["waits_for"]:
        return f"new: waits for {','.join(map(str, status['waits_for']))}"
    return str(status["failure"] or status["disk"] or "up")


def _style(row: Row) -> str:
    if row.status is None:
        return "red"
    return "yellow" if row.state != "up" or row.status["digests"]["differs_from"] else ""
