"""The owner of a data directory."""

from pathlib import Path

import msgspec
import pytest

from creekdb.errors import StorageFault, UsageError
from creekdb.server.storage.data_dir import DataDirOwner, check_owner, record_owner

OWNER = DataDirOwner(cluster="shop", replica=1, datatype="kv")


@pytest.mark.parametrize("other", [{"cluster": "shop-2"}, {"replica": 0}, {"datatype": "bank"}])
def test_only_the_recorded_owner_may_use_the_directory(
    tmp_path: Path, other: dict[str, str | int]
) -> None:
    check_owner(tmp_path / "missing", OWNER)
    check_owner(tmp_path, OWNER)
    record_owner(tmp_path, OWNER)
    check_owner(tmp_path, OWNER)
    expected = "belongs to replica 1 of cluster 'shop' with data type 'kv'"
    with pytest.raises(UsageError, match=expected):
        check_owner(tmp_path, msgspec.structs.replace(OWNER, **other))


def test_the_first_recorded_owner_stays(tmp_path: Path) -> None:
    record_owner(tmp_path, OWNER)
    other = msgspec.structs.replace(OWNER, replica=2)
    record_owner(tmp_path, other)
    check_owner(tmp_path, OWNER)
    with pytest.raises(UsageError, match="belongs to replica 1"):
        check_owner(tmp_path, other)


def test_a_failed_write_delays_the_record_of_the_owner(tmp_path: Path) -> None:
    data_dir = tmp_path / "missing"
    record_owner(data_dir, OWNER)
    assert not list(tmp_path.iterdir())
    data_dir.mkdir()
    record_owner(data_dir, OWNER)
    with pytest.raises(UsageError):
        check_owner(data_dir, msgspec.structs.replace(OWNER, replica=2))


def test_an_unreadable_owner_file_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "owner.json").write_text("{}")
    with pytest.raises(StorageFault, match=r"cannot read .*owner.json"):
        check_owner(tmp_path, OWNER)
