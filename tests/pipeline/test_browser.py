"""What happens where no browser is installed."""

import shutil

import pytest

from tests.pipeline import browser


@pytest.fixture(autouse=True)
def _no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)


def test_a_test_that_needs_a_browser_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)

    with pytest.raises(pytest.skip.Exception, match="no browser is installed"):
        browser.executable()


def test_where_everything_is_checked_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")

    with pytest.raises(pytest.fail.Exception, match="no browser is installed"):
        browser.executable()
