"""Compiled modules of a checkout.

`make compiled` writes extension modules and a list of their sources to `build/compiled`. If the
package is imported from `src` of that checkout, and no listed source has changed since, Python
loads the extension modules. Otherwise it loads the sources, and one line on stderr states why.

`CREEK_COMPILED=0` selects the sources, and `CREEK_COMPILED=1` requires the compiled modules. An
installed wheel contains its compiled modules beside the sources, and none of this applies to it.
"""

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

VARIABLE: Final = "CREEK_COMPILED"
STAMP: Final = "sources.txt"
"""File in `build/compiled` that lists the compiled modules and the sources that mypyc read."""


class CompiledModules(MetaPathFinder):
    """Finds the extension modules in a directory, before Python finds their sources."""

    def __init__(self, directory: Path, files: dict[str, str]) -> None:
        self._directory = directory
        self._files = files
        """Paths of the extension modules in the directory, by module name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._files:
            return None
        return spec_from_file_location(fullname, self._directory / self._files[fullname])


def use_compiled_modules(package: Path) -> None:
    """Load the compiled modules of the checkout that contains `package`, if they are current."""
    mode = os.environ.get(VARIABLE, "")
    directory = package.parent.parent / "build" / "compiled"
    if mode == "0" or package.parent.name != "src":
        return
    try:
        lines = (directory / STAMP).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        if mode == "1":
            raise ImportError(f"{directory} is missing; run 'make compiled'") from None
        return
    if (reason := _stale_reason(lines, package)) is not None:
        message = f"compiled modules are out of date: {reason}; run 'make compiled'"
        if mode == "1":
            raise ImportError(message)
        sys.stderr.write(f"creek: {message} (this run is interpreted)\n")
        os.environ[VARIABLE] = "0"  # processes that this one starts run the same code
        return
    entries = [line.split(" ") for line in lines[1:]]
    files = {name: file for kind, name, file, *_ in entries if kind == "module"}
    sys.meta_path.insert(0, CompiledModules(directory, files))


def interpreter() -> str:
    """Return the build of Python that can load extension modules of this process."""
    return " ".join((EXTENSION_SUFFIXES[0], *sys.version.split()))


def _stale_reason(lines: list[str], package: Path) -> str | None:
    if not lines or lines[0] != interpreter():
        return "another build of Python compiled them"
    for line in lines[1:]:
        kind, *fields = line.split(" ")
        if kind == "source" and _has_changed(package / fields[0], *fields[1:]):
            return f"{fields[0]} has changed"
    return None


def _has_changed(path: Path, size: str, mtime_ns: str, digest: str) -> bool:
    try:
        state = path.stat()
        if (str(state.st_size), str(state.st_mtime_ns)) == (size, mtime_ns):
            return False
        from hashlib import sha256  # noqa: PLC0415 - most processes need none

        return sha256(path.read_bytes()).hexdigest() != digest
    except FileNotFoundError:
        return True


use_compiled_modules(Path(__file__).parent)
