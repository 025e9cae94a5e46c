"""What `creek status` tells below its table."""

from typing import Any

import pytest

from creek.cli.status import AWAY, _show_more

STATUS: dict[str, Any] = {"replica": 0, "members": [0, 1, 2], "connected": [1, 2]}
FROM_THE_START = dict.fromkeys(AWAY, 3)


def told(capsys: pytest.CaptureFixture[str], **more: Any) -> str:
    _show_more([{**STATUS, **more}])
    return capsys.readouterr().out


def test_that_others_were_away_is_told_while_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, refused=FROM_THE_START) == ""
    said = told(capsys, refused=FROM_THE_START, connected=[1])
    assert said == f"replica 0 refused or dropped: 3 × {AWAY[0]}, 3 × {AWAY[1]}\n"


def test_what_was_refused_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    said = told(capsys, refused={**FROM_THE_START, "token": 2})
    assert said == "replica 0 refused or dropped: 2 × token\n"


def test_a_replica_that_was_held_up_says_by_what(capsys: pytest.CaptureFixture[str]) -> None:
    long = {"running": None, "long": 2, "last": "slow(7) took 7.0 s"}
    said = told(capsys, long_operations=long)
    assert said == "replica 0 was held up by 2 operations, the last: slow(7) took 7.0 s\n"
