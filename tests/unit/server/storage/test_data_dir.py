"""The owner of a data directory."""

import errno
from pathlib import Path

import msgspec
import pytest

from creekdb.errors import StorageFault, UsageError
from creekdb.server.storage import data_dir
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
    record_owner(tmp_path, msgspec.structs.replace(OWNER, replica=2))
    check_owner(tmp_path, OWNER)


def test_a_full_disk_delays_the_record_of_the_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(data_dir, "write_json_file", fail)
        record_owner(tmp_path, OWNER)
    assert not list(tmp_path.iterdir())
    record_owner(tmp_path, OWNER)
    with pytest.raises(UsageError):
        check_owner(tmp_path, msgspec.structs.replace(OWNER, replica=2))


def test_an_unreadable_owner_file_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "owner.json").write_text("{}")
    with pytest.raises(StorageFault, match=r"cannot read .*owner.json"):
        check_owner(tmp_path, OWNER)
