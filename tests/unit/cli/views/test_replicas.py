"""The table of `creek status`."""

from typing import Any

import pytest
from rich.console import Console

from creekdb.cli.views.replicas import STARTING, ReplicaRow, replicas_table, state_text


def status(replica: int, differs_from: list[int], agreed: int = 1_234_560) -> dict[str, Any]:
    return {
        "replica": replica,
        "process": 1_234_567,
        "leader": 0,
        "connected": [1, 2],
        "committed": 1_234_567,
        "tentative": 120,
        "digests": {"agreed": agreed, "digest": "0123456789abcdef", "differs_from": differs_from},
    }


ROWS = [
    ReplicaRow("0", "127.0.0.1:7100", status(0, [])),
    ReplicaRow("1", "127.0.0.1:7101", status(1, [0, 2])),
    ReplicaRow("2", "127.0.0.1:7102", None, "unreachable"),
]


def lines(width: int, live: bool = False, rows: list[ReplicaRow] = ROWS) -> list[list[str]]:
    console = Console(width=width, no_color=True)
    with console.capture() as captured:
        console.print(replicas_table(rows, width, live=live))
    return [line.split() for line in captured.get().splitlines()]


def test_the_table_fits_into_80_columns() -> None:
    head, first, second, third = lines(80)
    names = "replica port process leader links committed lag tentative agreed state"
    assert " ".join(head) == names
    assert " ".join(first) == "0 7100 1234567 itself 1,2 1,234,567 0 120 1,234,560 up"
    assert " ".join(second[-3:]) == "not 0,2 up"
    assert third == ["2", "7102", *"-" * 7, "unreachable"]


@pytest.mark.parametrize(("width", "live"), [(100, False), (90, True)])
def test_the_last_agreed_position_is_shown(width: int, live: bool) -> None:
    _, first, second, third = lines(width, live=live)
    assert first[-2:] == ["1,234,560", "up"]
    assert second[-3:] == ["not", "0,2", "up"]
    assert third[-2:] == ["-", "unreachable"]
    assert ("127.0.0.1:7100" in first) is not live


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("width", [79, 66, 50, 40])
def test_a_narrow_table_keeps_the_state_and_truncates_nothing(width: int, live: bool) -> None:
    head, first, second, third = lines(width, live)
    assert (head[0], head[-1]) == ("replica", "state")
    assert (first[0], first[-1]) == ("0", "up")
    assert (third[0], third[-1]) == ("2", "unreachable")
    assert "not 0,2" in " ".join(second)
    assert "…" not in " ".join(word for row in (head, first, second, third) for word in row)


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("width", range(40, 80))
def test_a_narrow_table_truncates_no_heading(width: int, live: bool) -> None:
    head, first = lines(width, live, ROWS[:1])
    assert (head[-1], first[-1]) == ("state", "up")


def test_a_starting_replica_is_not_red() -> None:
    rows = [ReplicaRow("0", "127.0.0.1:7100", None, STARTING), ROWS[2]]
    assert [row.style for row in replicas_table(rows, 80).rows] == ["dim", "red"]


def test_a_replica_without_a_majority_is_not_up() -> None:
    fields = {"waits_for": None, "failure": None, "disk": None, "members": [0, 1, 2]}
    assert state_text({**fields, "connected": [2]}) == "up"
    assert state_text({**fields, "connected": []}) == "no majority"
    other_code = {**fields, "connected": [1], "differing_operations": {"1": ["buy"]}}
    assert state_text(other_code) == "other code than 1"
    other_build = {**fields, "connected": [1], "differing_builds": {"1": "compiled"}}
    assert state_text(other_build) == "other build than 1"
    conflicts = {"1": "a reason", "2": "another"}
    assert state_text({**fields, "connected": [], "conflicts": conflicts}) == "conflicts with 1,2"
    assert state_text({**fields, "connected": [], "disk": "no space"}) == "no space"
    assert state_text({**fields, "connected": [], "members": [0]}) == "up"


def test_a_disk_failure_takes_precedence_over_joining() -> None:
    fields = {"failure": None, "disk": "no space", "members": [0, 1, 2], "connected": [1, 2]}
    assert state_text({**fields, "waits_for": [1]}) == "no space"
    assert state_text({**fields, "disk": None, "waits_for": [1]}) == "joining: awaits 1"
