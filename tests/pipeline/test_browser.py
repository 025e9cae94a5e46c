"""Browser tests on machines without a browser."""

import shutil

import pytest

from tests.pipeline import browser


@pytest.fixture(autouse=True)
def _no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)


def test_browser_tests_are_skipped_without_a_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)

    with pytest.raises(pytest.skip.Exception, match="no browser is installed"):
        browser.executable()


def test_browser_tests_fail_in_ci_without_a_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")

    with pytest.raises(pytest.fail.Exception, match="no browser is installed"):
        browser.executable()
