"""Reuse of object files. `make compare-compiled` tests the whole build."""

from pathlib import Path

from tools.mypyc_build import ObjectCache


def cache(directory: Path, *headers: bytes) -> ObjectCache:
    return ObjectCache(directory / "objects", headers)


def restored(tmp_path: Path, source: str, option: str, *headers: bytes) -> bytes | None:
    """Return the object file that a later build finds for `source`, or None."""
    code, target = tmp_path / "later.c", tmp_path / "later.o"
    code.write_text(source)
    found = cache(tmp_path, *headers).restore(code, [option], target)
    return target.read_bytes() if found else None


def test_an_object_file_is_reused_for_equal_code_headers_and_options(tmp_path: Path) -> None:
    source, target = tmp_path / "module.c", tmp_path / "module.o"
    source.write_text("int a;")
    target.write_bytes(b"object")
    cache(tmp_path, b"header").store(source, ["-O2"], target)

    assert restored(tmp_path, "int a;", "-O2", b"header") == b"object"
    assert restored(tmp_path, "int b;", "-O2", b"header") is None
    assert restored(tmp_path, "int a;", "-O3", b"header") is None
    assert restored(tmp_path, "int a;", "-O2", b"changed") is None


def test_object_files_that_a_build_did_not_use_are_removed(tmp_path: Path) -> None:
    source, target = tmp_path / "module.c", tmp_path / "module.o"
    target.write_bytes(b"object")
    for code in ("int a;", "int b;"):
        source.write_text(code)
        cache(tmp_path).store(source, ["-O2"], target)

    later = cache(tmp_path)
    assert later.restore(source, ["-O2"], tmp_path / "restored.o")
    later.remove_unused()

    assert restored(tmp_path, "int b;", "-O2") == b"object"
    assert restored(tmp_path, "int a;", "-O2") is None
