import json

import pytest

from creekdb.cli import main


def test_an_exhausted_scope_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "two-strong", "--operations", "1"]) == 0

    assert "exhausted: every state was visited" in capsys.readouterr().out


def test_a_search_that_stops_early_has_its_own_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explore", "--max-states", "10"]) == 4

    assert "not exhausted" in capsys.readouterr().out


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "two-strong", "--operations", "1", "--losses", "1", "--json"]) == 0

    shown = json.loads(capsys.readouterr().out)
    assert (shown["is_exhausted"], shown["violation"]) == (True, None)
    assert shown["scope"]["losses"] == 1


def test_the_scopes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--list"]) == 0

    assert "leader-change" in capsys.readouterr().out


def test_an_unknown_scope_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "smalest"]) == 2

    assert "smalest" in capsys.readouterr().err
