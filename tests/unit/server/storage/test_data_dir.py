"""A folder is that of one replica, and of no other."""

import errno
from pathlib import Path

import msgspec
import pytest

from creekdb.errors import StorageFault, UsageError
from creekdb.server.storage import data_dir as owners
from creekdb.server.storage.data_dir import DataDirOwner, check_owner, record_owner

OWNER = DataDirOwner(cluster="shop", replica=1, datatype="kv")


@pytest.mark.parametrize("other", [{"cluster": "shop-2"}, {"replica": 0}, {"datatype": "bank"}])
def test_who_has_signed_is_let_in_and_nobody_else(
    tmp_path: Path, other: dict[str, str | int]
) -> None:
    check_owner(tmp_path / "missing", OWNER)
    check_owner(tmp_path, OWNER)
    record_owner(tmp_path, OWNER)
    check_owner(tmp_path, OWNER)
    with pytest.raises(UsageError, match="is the folder of replica 1 of cluster 'shop', of 'kv'"):
        check_owner(tmp_path, msgspec.structs.replace(OWNER, **other))


def test_the_first_one_stays(tmp_path: Path) -> None:
    record_owner(tmp_path, OWNER)
    record_owner(tmp_path, msgspec.structs.replace(OWNER, replica=2))
    check_owner(tmp_path, OWNER)


def test_on_a_full_disk_one_signs_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(owners, "write_note", full)
        record_owner(tmp_path, OWNER)
    assert not list(tmp_path.iterdir())
    record_owner(tmp_path, OWNER)
    with pytest.raises(UsageError):
        check_owner(tmp_path, msgspec.structs.replace(OWNER, replica=2))


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "owner.json").write_text("{}")
    with pytest.raises(StorageFault, match=r"cannot read .*owner.json"):
        check_owner(tmp_path, OWNER)
