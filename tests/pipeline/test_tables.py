"""Tables of a directory as frames, with declared schemas."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import creekdb.pipeline
from creekdb.errors import UsageError
from creekdb.pipeline.schemas import EXPORT_SCHEMAS, RESULT_SCHEMAS, RUN_SCHEMAS, description
from creekdb.pipeline.stages import output_dir, simulate
from creekdb.pipeline.stages.grid import parse_grid
from creekdb.pipeline.storage import Location
from tools.site.tables import tables as tables_reference

BLOCK = {"load_tps": [500, 600], "duration": "40ms", "warehouses": 1}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "out"
    grid = parse_grid("test", {"block": [BLOCK]})
    output_dir.prepare_output_dir(Location.parse(path), grid)
    simulate.run_batch(simulate.batch(grid.cells), Location.parse(path))
    return path


def test_tables_are_read_by_name(spark: SparkSession, out: Path) -> None:
    tables = creekdb.pipeline.read(out, spark)
    assert set(tables) == RUN_SCHEMAS.keys()
    assert tables.runs.count() == 2
    for name, schema in RUN_SCHEMAS.items():
        assert tables[name].columns == schema.names
        assert name in dir(tables)
        assert name in repr(tables)
    kinds = tables.operations.select("kind").distinct().collect()
    assert {row.kind for row in kinds} <= {
        *("new_order", "payment", "order_status", "delivery", "stock_level"),
    }


def test_an_unknown_table_is_reported_with_the_known_ones(spark: SparkSession, out: Path) -> None:
    tables = creekdb.pipeline.read(out, spark)
    with pytest.raises(AttributeError, match="operations"):
        _ = tables.operation
    with pytest.raises(KeyError):
        _ = tables["measures"]


def test_a_directory_without_tables_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it holds no tables; name an output of"):
        creekdb.pipeline.read(tmp_path, spark)


def test_the_reference_documents_every_column() -> None:
    reference = tables_reference()
    for name, schema in (RUN_SCHEMAS | RESULT_SCHEMAS | EXPORT_SCHEMAS).items():
        assert f"### `{name}`" in reference
        for field in schema:
            assert description(field), f"{name}.{field.name} has no description"
            assert f"| `{field.name}` | {field.type} |" in reference
