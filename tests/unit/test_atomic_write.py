"""Files and directories that are complete or absent."""

from pathlib import Path

import pytest

from creekdb.atomic_write import atomic_write


def write_half(path: Path, is_directory: bool, shared: bool) -> None:
    with atomic_write(path, shared=shared) as partial:
        if is_directory:
            partial.mkdir()
            (partial / "file").write_text("half")
        else:
            partial.write_text("half")
        raise KeyboardInterrupt


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_a_file_is_replaced_only_once_it_is_complete(
    tmp_path: Path, durable: bool, shared: bool
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with atomic_write(path, durable=durable, shared=shared) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("exists", [False, True])
def test_a_directory_appears_with_all_its_content(tmp_path: Path, exists: bool) -> None:
    path = tmp_path / "directory"
    if exists:
        path.mkdir()
    with atomic_write(path, durable=True) as partial:
        (partial / "inner").mkdir(parents=True)
        (partial / "inner" / "file").write_text("text")
    assert (path / "inner" / "file").read_text() == "text"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("is_directory", [False, True])
def test_an_error_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, is_directory: bool, shared: bool
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_half(path, is_directory, shared)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_rename_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "directory" / "used").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"), atomic_write(tmp_path / "directory") as partial:
        partial.mkdir()
    assert [each.name for each in tmp_path.iterdir()] == ["directory"]


@pytest.mark.parametrize("is_directory", [False, True])
def test_the_next_writer_removes_the_rest_of_an_interrupted_write(
    tmp_path: Path, is_directory: bool
) -> None:
    left = tmp_path / ".name.partial"
    if is_directory:
        (left / "inner").mkdir(parents=True)
    else:
        left.write_text("half")
    with atomic_write(tmp_path / "name") as partial:
        partial.write_text("all")
    assert [each.name for each in tmp_path.iterdir()] == ["name"]


def test_two_writers_of_a_shared_path_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with atomic_write(path, shared=True) as first:
        first.write_text("first")
        with atomic_write(path, shared=True) as second:
            second.write_text("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
