"""How the replicas of a live cluster are, as a table."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from rich.table import Table

_NOTHING = "-"
_SAME_AT = "same at"
_USUAL = (
    *("replica", "clients at", "process", "leader", "links"),
    *("committed", "lag", "tentative", _SAME_AT),
)
_LIVE = (
    *("replica", "port", "leader", "links"),
    *("committed", "lag", "tentative", "ops/s", _SAME_AT),
)
_LEFT_OUT = ("process", _SAME_AT, "lag", "links", "tentative", "port", "leader", "ops/s")
"""Where there is no room for all, in this order."""
_STATE_WIDTH = 11
"""So much room there is for the state at least; a longer one goes on in the next line."""


STARTING = "starting"


class Row(NamedTuple):
    """A replica: where clients find it, and what it says of itself, or why it does not."""

    name: str
    address: str
    status: Mapping[str, Any] | None
    state: str = "up"
    rate: float | None = None


def replicas_table(rows: list[Row], width: int, live: bool = False) -> Table:
    """In a terminal so wide: what there is no room for is left out, and never the state. `live`:
    with what it does at the moment, and not which process it is."""
    known = [row.status["committed"] for row in rows if row.status is not None]
    shown = [_cells(row, max(known, default=0)) for row in rows]
    gap, names = _layout(shown, width, live)
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("state")
    for row, cells in zip(rows, shown, strict=True):
        state = row.state
        if _SAME_AT not in names and _differs(row):
            state = f"{state}, {cells[_SAME_AT]}"
        table.add_row(*(cells[name] for name in names), state, style=_style(row))
    return table


def _layout(shown: list[dict[str, str]], width: int, live: bool) -> tuple[int, tuple[str, ...]]:
    """How wide gaps are, and which columns there are beside the state."""
    names: tuple[str, ...] = _LIVE if live else _USUAL
    if _needed(shown, names, 2) <= width:
        return 2, names
    names = tuple("port" if name == "clients at" else name for name in names)
    for left_out in ("", *_LEFT_OUT):
        names = tuple(name for name in names if name != left_out)
        if _needed(shown, names, 1) <= width:
            break
    return 1, names


def _needed(shown: list[dict[str, str]], names: tuple[str, ...], gap: int) -> int:
    columns = [max(len(name), *(len(cells[name]) for cells in shown)) for name in names]
    state = max(len("state"), *(len(cells["state"]) for cells in shown))
    return sum(columns) + gap * len(columns) + min(state, _STATE_WIDTH)


def _cells(row: Row, most: int) -> dict[str, str]:
    cells = dict.fromkeys((*_USUAL, *_LIVE), _NOTHING)
    cells |= {"replica": row.name, "clients at": row.address, "state": row.state}
    cells["port"] = row.address.rpartition(":")[2]
    status = row.status
    if status is None:
        return cells
    leader = status["leader"]
    if leader is not None:
        cells["leader"] = "itself" if leader == status["replica"] else str(leader)
    if row.rate is not None:
        cells["ops/s"] = f"{row.rate:,.0f}"
    return cells | {
        "process": str(status["process"]),
        "links": ",".join(map(str, status["connected"])) or _NOTHING,
        "committed": f"{status['committed']:,}",
        "lag": f"{most - status['committed']:,}",
        "tentative": f"{status['tentative']:,}",
        _SAME_AT: _same_at(status["digests"]),
    }


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
        return "dim" if row.state == STARTING else "red"
    return "yellow" if row.state != "up" or _differs(row) else ""


def _differs(row: Row) -> bool:
    return row.status is not None and bool(row.status["digests"]["differs_from"])
