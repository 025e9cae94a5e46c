"""How the replicas of a live cluster are, as a table."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from rich.table import Table

_NO_VALUE = "-"
_AGREED_COLUMN = "same at"
_STATUS_COLUMNS = (
    *("replica", "clients at", "process", "leader", "links"),
    *("committed", "lag", "tentative", _AGREED_COLUMN),
)
_LIVE_COLUMNS = (
    *("replica", "port", "leader", "links"),
    *("committed", "lag", "tentative", "ops/s", _AGREED_COLUMN),
)
_OPTIONAL_COLUMNS = (
    "process",
    _AGREED_COLUMN,
    "lag",
    "links",
    "tentative",
    "port",
    "leader",
    "ops/s",
)
"""Where there is no room for all, in this order."""
_STATE_WIDTH_MIN = 11
"""So much room there is for the state at least; a longer one goes on in the next line."""


STARTING = "starting"


class ReplicaRow(NamedTuple):
    """A replica: where clients find it, and what it says of itself, or why it does not."""

    name: str
    address: str
    status: Mapping[str, Any] | None
    state: str = "up"
    operations_per_s: float | None = None


def replicas_table(rows: list[ReplicaRow], width: int, live: bool = False) -> Table:
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
        if _AGREED_COLUMN not in names and _has_diverged(row):
            state = f"{state}, {cells[_AGREED_COLUMN]}"
        table.add_row(*(cells[name] for name in names), state, style=_style(row))
    return table


def _layout(shown: list[dict[str, str]], width: int, live: bool) -> tuple[int, tuple[str, ...]]:
    """How wide gaps are, and which columns there are beside the state."""
    names: tuple[str, ...] = _LIVE_COLUMNS if live else _STATUS_COLUMNS
    if _required_width(shown, names, 2) <= width:
        return 2, names
    names = tuple("port" if name == "clients at" else name for name in names)
    for left_out in ("", *_OPTIONAL_COLUMNS):
        names = tuple(name for name in names if name != left_out)
        if _required_width(shown, names, 1) <= width:
            break
    return 1, names


def _required_width(shown: list[dict[str, str]], names: tuple[str, ...], gap: int) -> int:
    columns = [max(len(name), *(len(cells[name]) for cells in shown)) for name in names]
    state = max(len("state"), *(len(cells["state"]) for cells in shown))
    return sum(columns) + gap * len(columns) + min(state, _STATE_WIDTH_MIN)


def _cells(row: ReplicaRow, most: int) -> dict[str, str]:
    cells = dict.fromkeys((*_STATUS_COLUMNS, *_LIVE_COLUMNS), _NO_VALUE)
    cells |= {"replica": row.name, "clients at": row.address, "state": row.state}
    cells["port"] = row.address.rpartition(":")[2]
    status = row.status
    if status is None:
        return cells
    leader = status["leader"]
    if leader is not None:
        cells["leader"] = "itself" if leader == status["replica"] else str(leader)
    if row.operations_per_s is not None:
        cells["ops/s"] = f"{row.operations_per_s:,.0f}"
    return cells | {
        "process": str(status["process"]),
        "links": ",".join(map(str, status["connected"])) or _NO_VALUE,
        "committed": f"{status['committed']:,}",
        "lag": f"{most - status['committed']:,}",
        "tentative": f"{status['tentative']:,}",
        _AGREED_COLUMN: _agreed_text(status["digests"]),
    }


def _agreed_text(digests: Mapping[str, Any]) -> str:
    """After how many requests its state was last seen to be that of others, or whose is another."""
    if digests["differs_from"]:
        return f"not {','.join(map(str, digests['differs_from']))}"
    return _NO_VALUE if digests["digest"] is None else f"{digests['agreed']:,}"


def state_text(status: Mapping[str, Any]) -> str:
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


def _style(row: ReplicaRow) -> str:
    if row.status is None:
        return "dim" if row.state == STARTING else "red"
    return "yellow" if row.state != "up" or _has_diverged(row) else ""


def _has_diverged(row: ReplicaRow) -> bool:
    return row.status is not None and bool(row.status["digests"]["differs_from"])
