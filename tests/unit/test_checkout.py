"""Selection of compiled modules in a checkout. The extension modules of these checkouts are empty
files, which nobody loads."""

import os
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from creekdb.checkout import STAMP, VARIABLE, CompiledModules, interpreter, use_compiled_modules


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    others = [each for each in sys.meta_path if not isinstance(each, CompiledModules)]
    monkeypatch.setattr(sys, "meta_path", others)


class Checkout:
    """A checkout with one compiled module."""

    def __init__(self, root: Path) -> None:
        self.package = root / "src" / "creekdb"
        self.source = self.package / "order.py"
        self.compiled = root / "build" / "compiled"
        for directory in (self.package, self.compiled):
            directory.mkdir(parents=True)
        self.source.write_text("A = 1\n")

    def compile(self, python: str = interpreter()) -> None:
        state, digest = self.source.stat(), sha256(self.source.read_bytes()).hexdigest()
        (self.compiled / STAMP).write_text(
            f"{python}\ntool mypy 2\nmodule creekdb.order creekdb/order.so\n"
            f"source order.py {state.st_size} {state.st_mtime_ns} {digest}\n"
        )

    def found(self, name: str = "creekdb.order") -> str | None:
        """Return the file that Python loads for a module, or None if it loads the source."""
        use_compiled_modules(self.package)
        specs = [finder.find_spec(name, None, None) for finder in finders()]
        return next((spec.origin for spec in specs if spec is not None), None)


def finders() -> Iterator[CompiledModules]:
    yield from (each for each in sys.meta_path if isinstance(each, CompiledModules))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_compiled_modules_are_used_without_a_module_path(checkout: Checkout) -> None:
    assert checkout.found() is None
    checkout.compile()

    assert checkout.found() == str(checkout.compiled / "creekdb/order.so")
    assert checkout.found("creekdb.other") is None


def test_a_touched_source_is_still_current(checkout: Checkout) -> None:
    checkout.compile()
    os.utime(checkout.source, ns=(0, 0))

    assert checkout.found() is not None


@pytest.mark.parametrize("change", ["edited", "removed"])
def test_a_changed_source_is_reported_and_runs_interpreted(
    checkout: Checkout, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.compile()
    if change == "edited":
        checkout.source.write_text("A = 2\n")
    else:
        checkout.source.unlink()

    assert checkout.found() is None
    assert capsys.readouterr().err == (
        "creek: compiled modules are out of date: order.py has changed; run 'make compiled' "
        "(this run is interpreted)\n"
    )
    assert checkout.found() is None
    assert capsys.readouterr().err == ""  # processes that this one starts do not repeat it


def test_modules_of_another_python_are_not_loaded(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.compile("another Python")

    assert checkout.found() is None
    assert "another build of Python compiled them" in capsys.readouterr().err


def test_the_variable_selects_the_sources(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.compile()
    monkeypatch.setenv(VARIABLE, "0")

    assert checkout.found() is None


def test_the_variable_requires_current_compiled_modules(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "1")

    with pytest.raises(ImportError, match="is missing; run 'make compiled'"):
        checkout.found()
    checkout.compile()
    checkout.source.write_text("A = 2\n")
    with pytest.raises(ImportError, match=r"order.py has changed; run 'make compiled'"):
        checkout.found()


def test_an_installed_package_ignores_a_directory_named_build(tmp_path: Path) -> None:
    installed = Checkout(tmp_path)
    installed.compile()
    installed.package = installed.package.rename(tmp_path / "src" / "site-packages")
    (tmp_path / "src").rename(tmp_path / "lib")

    use_compiled_modules(tmp_path / "lib" / "site-packages")

    assert not list(finders())
