"""Headless Chromium for tests, if it is installed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ARGUMENTS: Final = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")


def executable() -> str:
    """Return the path of a browser. Without one, skip the test, or fail it in CI."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is not None:
        return path
    if os.environ.get("CI"):
        pytest.fail(f"no browser is installed: none of {', '.join(NAMES)} is on the PATH")
    pytest.skip(f"no browser is installed: none of {', '.join(NAMES)} is on the PATH")


@contextmanager
def browsing() -> Iterator[Browser]:
    path = executable()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()
