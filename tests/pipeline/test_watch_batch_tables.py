"""Tables that grow by batches, exactly once."""

from pathlib import Path

import pyarrow as pa

from creekdb.pipeline.storage import Location
from creekdb.pipeline.watch.batch_tables import BatchTable

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])


def table(path: Path, files_max: int = 60) -> BatchTable:
    return BatchTable(Location.parse(path), SCHEMA, files_max)


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": numbers}, SCHEMA)


def numbers(kept: BatchTable) -> list[int]:
    return sorted(kept.read()["n"].to_pylist())


def test_a_repeated_batch_replaces_its_rows(tmp_path: Path) -> None:
    kept = table(tmp_path)
    kept.write(0, rows(1))
    kept.write(1, rows(2, 3))
    kept.write(1, rows(4))

    assert numbers(kept) == [1, 4]


def test_a_repeated_batch_without_rows_removes_them(tmp_path: Path) -> None:
    kept = table(tmp_path)
    kept.write(0, rows(1))
    kept.write(0, rows())

    assert numbers(kept) == []


def test_merged_files_have_the_same_rows(tmp_path: Path) -> None:
    kept = table(tmp_path, files_max=3)
    for batch in range(10):
        kept.write(batch, rows(batch))

    assert numbers(kept) == list(range(10))
    assert len(list(tmp_path.iterdir())) <= 4


def test_the_last_batch_can_be_repeated_after_a_merge(tmp_path: Path) -> None:
    kept = table(tmp_path, files_max=3)
    for batch in range(5):
        kept.write(batch, rows(batch))
        kept.write(batch, rows(10 * batch))

    assert numbers(kept) == [0, 10, 20, 30, 40]


def test_an_interrupted_merge_counts_no_row_twice(tmp_path: Path) -> None:
    kept = table(tmp_path)
    for batch in range(3):
        kept.write(batch, rows(batch))
    (Location.parse(tmp_path) / "batch-000000000-000000001.parquet").write_table(rows(0, 1))

    assert numbers(kept) == [0, 1, 2]
    kept.write(3, rows(3))
    assert len(list(tmp_path.iterdir())) == 3
