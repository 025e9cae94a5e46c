"""Table of the replicas of a live cluster."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from rich.table import Table

_NO_VALUE = "-"
_AGREED_COLUMN = "agreed"
_STATUS_COLUMNS = (
    *("replica", "address", "process", "leader", "links"),
    *("committed", "lag", "tentative", _AGREED_COLUMN),
)
_LIVE_COLUMNS = (
    *("replica", "port", "leader", "links"),
    *("committed", "lag", "tentative", "ops/s", _AGREED_COLUMN),
)
_OPTIONAL_COLUMNS = (
    *("process", _AGREED_COLUMN, "lag", "links"),
    *("tentative", "port", "leader", "ops/s"),
)
"""Columns in the order in which a narrow terminal omits them."""
_STATE_WIDTH_MIN = 11
"""Minimum width of the column `state`; a longer text is wrapped."""


STARTING = "starting"


class ReplicaRow(NamedTuple):
    """A replica: its address for clients, its status, or the reason for its absence."""

    name: str
    address: str
    status: Mapping[str, Any] | None
    state: str = "up"
    operations_per_s: float | None = None


def replicas_table(rows: list[ReplicaRow], width: int, live: bool = False) -> Table:
    """Return a table for a terminal of this width; a narrow one omits columns, but not the state.

    `live`: show the current throughput instead of the process.
    """
    committed = [row.status["committed"] for row in rows if row.status is not None]
    shown = [_cells(row, max(committed, default=0)) for row in rows]
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
    """Return the column gap, and the names of the columns shown in addition to the state."""
    names: tuple[str, ...] = _LIVE_COLUMNS if live else _STATUS_COLUMNS
    if _required_width(shown, names, 2) <= width:
        return 2, names
    names = tuple("port" if name == "address" else name for name in names)
    for omitted in ("", *_OPTIONAL_COLUMNS):
        names = tuple(name for name in names if name != omitted)
        if _required_width(shown, names, 1) <= width:
            break
    return 1, names


def _required_width(shown: list[dict[str, str]], names: tuple[str, ...], gap: int) -> int:
    columns = [max(len(name), *(len(cells[name]) for cells in shown)) for name in names]
    state = max(len("state"), *(len(cells["state"]) for cells in shown))
    return sum(columns) + gap * len(columns) + min(state, _STATE_WIDTH_MIN)


def _cells(row: ReplicaRow, committed_max: int) -> dict[str, str]:
    cells = dict.fromkeys((*_STATUS_COLUMNS, *_LIVE_COLUMNS), _NO_VALUE)
    cells |= {"replica": row.name, "address": row.address, "state": row.state}
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
        "lag": f"{committed_max - status['committed']:,}",
        "tentative": f"{status['tentative']:,}",
        _AGREED_COLUMN: _agreed_text(status["digests"]),
    }


def _agreed_text(digests: Mapping[str, Any]) -> str:
    """Return the number of requests after which states were last equal, or the diverged
    replicas."""
    if digests["differs_from"]:
        return f"not {','.join(map(str, digests['differs_from']))}"
    return _NO_VALUE if digests["digest"] is None else f"{digests['agreed']:,}"


def state_text(status: Mapping[str, Any]) -> str:
    """Return the state in a few words, or the failure of the replica."""
    if failure := status["failure"] or status["disk"]:
        return str(failure)
    if status["waits_for"] is not None:
        others = ",".join(map(str, status["waits_for"]))
        return f"joining: awaits {others}" if others else "joining: catching up"
    if not status.get("is_member", True):
        return "not a member"
    if conflicts := status.get("conflicts"):
        return f"conflicts with {','.join(conflicts)}"
    if differing := status.get("differing_operations"):
        return f"other code than {','.join(differing)}"
    if builds := status.get("differing_builds"):
        return f"other build than {','.join(builds)}"
    reachable = len(status["connected"]) + 1
    return "up" if 2 * reachable > len(status["members"]) else "no majority"


def _style(row: ReplicaRow) -> str:
    if row.status is None:
        return "dim" if row.state == STARTING else "red"
    return "yellow" if row.state != "up" or _has_diverged(row) else ""


def _has_diverged(row: ReplicaRow) -> bool:
    return row.status is not None and bool(row.status["digests"]["differs_from"])
