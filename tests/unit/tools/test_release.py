"""Steps of a release that need no environment. `make release` runs all of them."""

import hashlib
from pathlib import Path

import pytest

import tools.release as release
from tests.releases.make import archives
from tools.release import (
    ReleaseFailed,
    at_port,
    check_version,
    examples,
    tag_for_distributions,
    write_checksums,
)


def test_the_readme_and_every_application_are_run(tmp_path: Path) -> None:
    found = {each.directory.name: each for each in examples(tmp_path / "readme")}

    assert set(found) == {"readme", "tickets", "point_of_sale", "counters"}
    assert all(step.output for each in found.values() for step in each.steps)
    assert found["tickets"].cluster == "--datatype theatre:theatre"
    assert [step.line for step in found["readme"].steps] == ["python example.py"]


def test_addresses_of_the_readme_are_moved_to_free_ports() -> None:
    assert at_port("127.0.0.1:7100,127.0.0.1:7102", 18_000) == "127.0.0.1:18000,127.0.0.1:18002"


@pytest.mark.parametrize("missing", ["CHANGELOG.md", "0.2.0.zip", "0.2.0-tables.zip"])
def test_a_version_without_changelog_or_archive_is_not_released(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests" / "releases").mkdir(parents=True)
    for archive in archives("0.2.0").values():
        (tmp_path / "tests" / "releases" / archive.name).touch()
    (tmp_path / "CHANGELOG.md").write_text("## [0.2.0] - 2027-01-01\n")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    check_version("0.2.0")
    if missing.endswith(".zip"):
        (tmp_path / "tests" / "releases" / missing).unlink()
    else:
        (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n")

    with pytest.raises(ReleaseFailed, match=missing):
        check_version("0.2.0")


def test_a_version_with_unreleased_changes_is_not_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests" / "releases").mkdir(parents=True)
    for archive in archives("0.2.0").values():
        (tmp_path / "tests" / "releases" / archive.name).touch()
    changelog = tmp_path / "CHANGELOG.md"
    monkeypatch.setattr(release, "ROOT", tmp_path)
    changelog.write_text("## [Unreleased]\n\n## [0.2.0] - 2027-01-01\n\n### Added\n")
    check_version("0.2.0")
    for entry in ("### Fixed\n\n- A bug.\n", "- A bug.\n"):
        changelog.write_text(f"## [Unreleased]\n\n{entry}\n## [0.2.0] - 2027-01-01\n")
        with pytest.raises(ReleaseFailed, match=r"unreleased changes; move them to \[0\.2\.0\]"):
            check_version("0.2.0")


def test_a_pure_wheel_keeps_its_tag(tmp_path: Path) -> None:
    wheel = tmp_path / "creekdb-0.2.0-py3-none-any.whl"
    assert tag_for_distributions(wheel, tmp_path) == wheel


def test_checksums_are_those_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "DIST", tmp_path)
    wheel = tmp_path / "creekdb.whl"
    wheel.write_bytes(b"content")

    write_checksums([wheel])

    digest = hashlib.sha256(b"content").hexdigest()
    assert (tmp_path / "SHA256SUMS").read_text() == f"{digest}  creekdb.whl\n"
