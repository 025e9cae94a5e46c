"""One local Spark session that all tests share.

Tests that use it run in one process of xdist (`--dist loadgroup`). A second process would start
a second session, and both would compete for the machine. Tests whose Spark runs in processes of its
own form another group.
"""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from creekdb.pipeline.spark.session import spark_session


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and (
            item.get_closest_marker("xdist_group") is None
        ):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with spark_session("local[2]", "creek tests") as spark:
        yield spark
