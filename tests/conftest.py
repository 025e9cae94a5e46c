"""Settings shared by all tests.

Property tests try the same examples on every run, so that a failure reproduces everywhere. To
search for new examples: `make test ARGS="--hypothesis-profile=explore"`.

The JVM of a Spark test lives for seconds. A single compiler tier and the serial garbage collector
halve its CPU time.

Tests run the sources, also after `make compiled`. `make test-compiled` sets CREEK_COMPILED=1.
"""

import gc
import os
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("repeatable")

os.environ.setdefault("CREEK_COMPILED", "0")
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Keep xdist groups together: tests of one group run in one process.

    xdist 3.8 encodes the group in the test's `_nodeid`, which pytest 9.2 no longer reads.
    """
    for item in items:
        renamed = getattr(item, "_nodeid", item.nodeid)
        if renamed != item.nodeid:
            item._id = type(item._id).parse(renamed)


def pytest_collection_finish() -> None:
    """Exclude all loaded modules and tests from garbage collection.

    A worker holds thousands of them until its end. Tests that collect garbage would
    traverse all of them each time.
    """
    gc.collect()
    gc.freeze()
