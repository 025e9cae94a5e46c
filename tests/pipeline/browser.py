"""A headless Chromium, where there is one."""

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
    """Where there is none the test is skipped; on a machine that checks everything, it fails."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is not None:
        return found
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
