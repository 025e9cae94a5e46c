"""Warnings of `creek status` below its table."""

from typing import Any

import pytest

from creekdb.cli.commands.status import (
    TRANSIENT_REASONS,
    _complete_statuses,
    _print_warnings,
    _unreachable,
)
from creekdb.wire.reject_reason import RejectReason

STATUS: dict[str, Any] = {"replica": 0, "members": [0, 1, 2], "connected": [1, 2]}
FROM_THE_START = dict.fromkeys(TRANSIENT_REASONS, 3)


def warnings_of(capsys: pytest.CaptureFixture[str], **fields: Any) -> str:
    _print_warnings([{**STATUS, **fields}])
    return capsys.readouterr().out


def test_rejections_caused_by_absent_peers_are_reported_until_they_return(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert warnings_of(capsys, refused=FROM_THE_START) == ""
    shown_text = warnings_of(capsys, refused=FROM_THE_START, connected=[1])
    assert shown_text == (
        f"replica 0 rejected or dropped: {', '.join(f'3 × {each}' for each in TRANSIENT_REASONS)}\n"
    )


def test_a_cut_link_is_not_reported_once_it_is_healed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert warnings_of(capsys, refused={"cut": 173}) == ""
    assert "173 × cut" in warnings_of(capsys, refused={"cut": 173}, connected=[2])


def test_other_rejections_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    shown_text = warnings_of(capsys, refused={**FROM_THE_START, RejectReason.TOKEN: 2})
    assert shown_text == "replica 0 rejected or dropped: 2 × token\n"


def test_long_operations_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    long = {"running": None, "long": 2, "last": "slow(7) took 7.0 s"}
    shown_text = warnings_of(capsys, long_operations=long)
    assert shown_text == "replica 0 was blocked by 2 operations, the last: slow(7) took 7.0 s\n"


def test_the_reason_for_not_participating_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert warnings_of(capsys, why_closed="it waits") == "replica 0: it waits\n"
    assert warnings_of(capsys, why_closed="") == ""


def test_a_silent_connected_peer_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown_text = warnings_of(capsys, silent_s={"1": 0.02, "2": 41.7})
    assert shown_text == (
        "replica 0 has received nothing from replica 2 for 42 s, although they are connected: "
        "it may be frozen\n"
    )


def address(number: int) -> str:
    return f"127.0.0.1:{7100 + number}"


def status_of(replica: int, *known: int, members: tuple[int, ...] = (0, 1, 2)) -> dict[str, Any]:
    addresses = {str(each): address(each) for each in known}
    return {
        "address": address(replica),
        "replica": replica,
        "members": members,
        "addresses": addresses,
    }


def shown(*statuses: dict[str, Any], is_guess: bool = True) -> list[tuple[str, str, bool]]:
    completed = _complete_statuses(list(statuses), is_guess)
    return [
        (str(each["replica"]), each["address"], "unreachable" not in each) for each in completed
    ]


def test_an_unreachable_member_is_identified_through_the_others() -> None:
    rows = shown(_unreachable(address(0), "refused"), status_of(1, 0, 2), status_of(2, 0, 1))
    assert rows == [("0", address(0), False), ("1", address(1), True), ("2", address(2), True)]


def test_a_member_without_known_address_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    down = _unreachable(address(0), "refused")
    assert shown(down, status_of(1, 2), status_of(2, 1))[0] == ("0", "-", False)
    _print_warnings(_complete_statuses([down, status_of(1, 2), status_of(2, 1)], is_guess=True))
    assert capsys.readouterr().out.startswith(
        "replica 0: no responding replica has connected to it"
    )
    known = {**status_of(1, 2), "found_at": {"0": "127.0.0.1:7200"}}
    _print_warnings(_complete_statuses([known, status_of(2, 1)], is_guess=True))
    assert "; they try 127.0.0.1:7200\n" in capsys.readouterr().out


def test_unreachable_default_addresses_are_not_shown() -> None:
    single = status_of(0, members=(0,))
    unreachable = [_unreachable(address(each), "refused") for each in range(3)]
    assert shown(single, *unreachable[1:]) == [("0", address(0), True)]
    assert shown(*unreachable) == [("-", address(0), False)]
    assert shown(single, unreachable[1], is_guess=False) == [
        ("-", address(1), False),
        ("0", address(0), True),
    ]
