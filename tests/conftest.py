"""What every test shares.

Property tests try the same examples on every run, so that a red build is red for everyone. To look
for new ones: `make test ARGS="--hypothesis-profile=explore"`.

The Java of tests that need Spark lives for seconds, and would spend half of them on making itself
faster: here it compiles once, plainly, and collects its garbage in one thread.
"""

import os
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("repeatable")

os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Let groups of xdist hold: tests of a group run in one process.

    xdist 3.8 tells a test's group by renaming the test, where pytest 9.2 does not look any more.
    """
    for item in items:
        renamed = getattr(item, "_nodeid", item.nodeid)
        if renamed != item.nodeid:
            item._id = type(item._id).parse(renamed)
