"""Locations: local paths and URIs, complete files, and damage that is found."""

import copy
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pytest

from creekdb.errors import StorageFault, UsageError
from creekdb.pipeline.storage import Location

TABLE = pa.table({"number": list(range(5_000))})


@pytest.fixture
def out(tmp_path: Path) -> Location:
    return Location.parse(tmp_path / "out")


def test_a_path_and_a_file_uri_name_the_same_location(tmp_path: Path) -> None:
    by_path, by_uri = Location.parse(tmp_path), Location.parse(f"file://{tmp_path}")
    assert by_path == by_uri
    assert by_path.uri == f"file://{tmp_path}"
    assert by_uri.local_path == tmp_path
    assert (by_path / "a" / "b").uri == f"file://{tmp_path}/a/b"


def test_a_relative_path_is_shown_as_given_and_absolute_for_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    location = Location.parse("runs") / "quick"
    assert str(location) == "runs/quick"
    assert location.uri == f"file://{tmp_path}/runs/quick"
    assert copy.copy(location).uri == location.uri  # by the same means as a task receives it


def test_a_directory_lists_its_visible_names(out: Location) -> None:
    assert out.names() == []
    for name in ("b", "a", ".hidden", "_SUCCESS"):
        (out / name).write_bytes(b"")
    assert out.names() == ["a", "b"]
    assert out.is_directory()
    assert (out / "a").is_file()
    (out / "a").remove()
    assert out.names() == ["b"]
    out.remove()
    assert not out.exists()
    out.remove()


def test_an_interrupted_write_leaves_the_earlier_file(
    out: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = out / "file"
    file.write_bytes(b"earlier")

    def fail(path: Path, content: bytes) -> None:
        path.open("wb").close()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OSError, match="No space left"):
        file.write_bytes(b"later")
    assert file.read_bytes() == b"earlier"
    assert [each.name for each in file.local_path.parent.iterdir()] == ["file"]


def test_every_flipped_bit_of_the_data_is_detected(out: Location) -> None:
    file = out / "table.parquet"
    file.write_table(TABLE)
    assert file.read_table().equals(TABLE)
    content = file.read_bytes()
    begin = content.index(b"PAR1") + 4
    undetected, reports = list[int](), set[str]()
    for offset in range(begin, len(content) // 2, 97):
        damaged = bytearray(content)
        damaged[offset] ^= 1 << offset % 8
        file.write_bytes(bytes(damaged))
        try:
            undetected += [] if file.read_table().equals(TABLE) else [offset]
        except StorageFault as error:
            reports.add(str(error).partition(": ")[0])
    assert undetected == []
    assert reports == {f"{file} is damaged"}


def test_a_truncated_or_missing_table_is_reported_by_name(out: Location) -> None:
    file = out / "table.parquet"
    with pytest.raises(StorageFault, match=f"{file} is missing"):
        file.read_table()
    file.write_table(TABLE)
    file.write_bytes(file.read_bytes()[:-10])
    for read in (file.read_table, file.read_schema):
        with pytest.raises(StorageFault, match=f"{file} is damaged: "):
            read()


@pytest.mark.parametrize("name", ["unheard://host/x", "hdfs://nn/x"])
def test_a_file_system_without_access_is_rejected_by_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ARROW_LIBHDFS_DIR", raising=False)
    scheme = name.partition(":")[0]
    with pytest.raises(UsageError, match=f"cannot use {name}: no access to .* '{scheme}'"):
        Location.parse(name)
    assert list(tmp_path.iterdir()) == []


def test_an_object_store_is_read_and_written_through_arrow() -> None:
    store, _ = pa.fs.FileSystem.from_uri("mock://")
    store.create_dir("bucket")
    out = Location(store, "bucket/out", "s3a://bucket/out")
    assert not out.is_local
    assert (out / "runs").uri == "s3a://bucket/out/runs"
    (out / "runs").make_directory()
    (out / "runs" / "part-a.parquet").write_table(TABLE)
    assert (out / "runs").names() == ["part-a.parquet"]
    assert (out / "runs" / "part-a.parquet").read_table().equals(TABLE)
    with pytest.raises(UsageError, match="must be a local directory"):
        _ = out.local_path
    (out / "runs").remove()
    assert out.names() == []
