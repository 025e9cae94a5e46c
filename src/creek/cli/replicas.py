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


def replicas_table(rows: list[Row], live: bool = False, narrow: bool = False) -> Table:
    """`live`: with what it does at the moment, and not which process it is. `narrow`: it has to fit
    into 80 columns."""
    padding = (0, 1, 0, 0) if narrow else (0, 1)
    table = Table(box=None, pad_edge=False, padding=padding, header_style="dim")
    where = "port" if live or narrow else "clients at"
    names = ("replica", where, *(() if live else ("process",)), "leader", "links")
    for name in (*names, "committed", "lag", "tentative", *(("ops/s",) if live else ()), "same at"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("state")
    known = [row.status["committed"] for row in rows if row.status is not None]
    most = max(known, default=0)
    for row in rows:
        at = row.address.rpartition(":")[2] if where == "port" else row.address
        table.add_row(row.name, at, *_cells(row, most, live), row.state, style=_style(row))
    return table


def _cells(row: Row, most: int, live: bool) -> list[str]:
    status = row.status
    if status is None:
        return [_NOTHING] * 7
    leader = status["leader"]
    cells = [] if live else [str(status["process"])]
    cells += [
        _NOTHING if leader is None else "itself" if leader == status["replica"] else str(leader),
        ",".join(map(str, status["connected"])) or _NOTHING,
        f"{status['committed']:,}",
        f"{most - status['committed']:,}",
        f"{status['tentative']:,}",
    ]
    if live:
        cells.append(_NOTHING if row.rate is None else f"{row.rate:,.0f}")
    return [*cells, _same_at(status["digests"])]


def _same_at(digests: Mapping[str, Any]) -> str:
    """After how many requests its state was last seen to be that of others, or whose is another."""
    if digests["differs_from"]:
        return f"not {','.join(map(str, digests['differs_from']))}"
    return _NOTHING if digests["digest"] is None else f"{digests['agreed']:,}"


def state_of(status: Mapping[str, Any]) -> str:
    """In a word, or in what is wrong."""
    if wrong := status["failure"] or status["disk"]:
        return str(wrong)
    if status["waits_for"] is not None:
        others = ",".join(map(str, status["waits_for"]))
        return f"new: waits for {others}" if others else "new: catches up"
    if not status.get("is_member", True):
        return "no member"
    reached = len(status["connected"]) + 1
    return "up" if 2 * reached > len(status["members"]) else "no majority"


def _style(row: Row) -> str:
    if row.status is None:
        return "red"
    return "yellow" if row.state != "up" or row.status["digests"]["differs_from"] else ""
