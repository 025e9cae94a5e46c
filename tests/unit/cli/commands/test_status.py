"""What `creek status` tells below its table."""

from typing import Any

import pytest

from creekdb.cli.commands.status import (
    TRANSIENT_REASONS,
    _complete_statuses,
    _print_warnings,
    _unreachable,
)

STATUS: dict[str, Any] = {"replica": 0, "members": [0, 1, 2], "connected": [1, 2]}
FROM_THE_START = dict.fromkeys(TRANSIENT_REASONS, 3)


def told(capsys: pytest.CaptureFixture[str], **more: Any) -> str:
    _print_warnings([{**STATUS, **more}])
    return capsys.readouterr().out


def test_that_others_were_away_is_told_while_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, refused=FROM_THE_START) == ""
    said = told(capsys, refused=FROM_THE_START, connected=[1])
    assert said == (
        f"replica 0 refused or dropped: {', '.join(f'3 × {each}' for each in TRANSIENT_REASONS)}\n"
    )


def test_of_a_link_that_was_cut_nothing_is_told_once_it_is_healed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert told(capsys, refused={"cut": 173}) == ""
    assert "173 × cut" in told(capsys, refused={"cut": 173}, connected=[2])


def test_what_was_refused_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    said = told(capsys, refused={**FROM_THE_START, "token": 2})
    assert said == "replica 0 refused or dropped: 2 × token\n"


def test_a_replica_that_was_held_up_says_by_what(capsys: pytest.CaptureFixture[str]) -> None:
    long = {"running": None, "long": 2, "last": "slow(7) took 7.0 s"}
    said = told(capsys, long_operations=long)
    assert said == "replica 0 was held up by 2 operations, the last: slow(7) took 7.0 s\n"


def test_one_that_takes_no_part_is_told_of_in_its_own_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert told(capsys, why_closed="it waits") == "replica 0: it waits\n"
    assert told(capsys, why_closed="") == ""


def test_one_that_is_connected_and_says_nothing_is_told_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = told(capsys, silent_s={"1": 0.02, "2": 41.7})
    assert said == (
        "replica 0 has heard nothing of replica 2 for 42 s, though they are connected: "
        "it may be frozen\n"
    )


def at(number: int) -> str:
    return f"127.0.0.1:{7100 + number}"


def answer(replica: int, *met: int, members: tuple[int, ...] = (0, 1, 2)) -> dict[str, Any]:
    addresses = {str(each): at(each) for each in met}
    return {"address": at(replica), "replica": replica, "members": members, "addresses": addresses}


def shown(*found: dict[str, Any], is_guess: bool = True) -> list[tuple[str, str, bool]]:
    completed = _complete_statuses(list(found), is_guess)
    return [
        (str(each["replica"]), each["address"], "unreachable" not in each) for each in completed
    ]


def test_one_that_is_down_is_known_by_what_others_say() -> None:
    found = shown(_unreachable(at(0), "refused"), answer(1, 0, 2), answer(2, 0, 1))
    assert found == [("0", at(0), False), ("1", at(1), True), ("2", at(2), True)]


def test_a_member_that_nobody_has_met_is_shown_all_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    down = _unreachable(at(0), "refused")
    assert shown(down, answer(1, 2), answer(2, 1))[0] == ("0", "-", False)
    _print_warnings(_complete_statuses([down, answer(1, 2), answer(2, 1)], is_guess=True))
    assert capsys.readouterr().out.startswith("replica 0: those that answer have not met it")
    known = {**answer(1, 2), "found_at": {"0": "127.0.0.1:7200"}}
    _print_warnings(_complete_statuses([known, answer(2, 1)], is_guess=True))
    assert "and look for it at 127.0.0.1:7200\n" in capsys.readouterr().out


def test_where_one_only_guessed_there_need_not_be_anybody() -> None:
    alone = answer(0, members=(0,))
    nobody = [_unreachable(at(each), "refused") for each in range(3)]
    assert shown(alone, *nobody[1:]) == [("0", at(0), True)]
    assert shown(*nobody) == [("-", at(0), False)]
    assert shown(alone, nobody[1], is_guess=False) == [("-", at(1), False), ("0", at(0), True)]
