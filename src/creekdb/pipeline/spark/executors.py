"""Code and packages of executors: the archives that are sent, and a check before the first job.

- The driver sends its own code (`package_archive`), with the metadata that `import creekdb` reads.
- Other packages come from the machines of the executors, or from an archive that
  `pack_environment` writes. Its interpreter is a script that adds the packages to the path of the
  machine's own Python.
- `check_executors` runs a task on every core. It reports another version of Python, and packages
  that cannot be imported, before a job fails in the middle.
"""

import gzip
import io
import re
import socket
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from creekdb.atomic_write import atomic_write
from creekdb.errors import StorageFault, UsageError
from creekdb.pipeline.spark.configuration import ENVIRONMENT_NAME, SparkOptions

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from pyspark.sql import SparkSession

DISTRIBUTION: Final = "creekdb"
EXECUTOR_EXTRA: Final = "executors"
"""Extra of the distribution whose requirements are those of tasks."""
PROVIDED_BY_SPARK: Final = frozenset({"pyspark", "py4j"})
PACK_REMEDY: Final = (
    "send the packages: 'creek pipeline pack --out environment.tar.gz', then "
    f"'--archives environment.tar.gz#{ENVIRONMENT_NAME}'"
)
PYTHON_REMEDY: Final = (
    "install Python {version} there, or name its interpreter with --conf spark.pyspark.python=PATH"
)
GZIP_LEVEL: Final = 1
"""Compression level of the packed environment. Higher levels take longer than they save."""

_PACKAGE_DIR: Final = "packages"
_ZIP_TIME: Final = (1980, 1, 1, 0, 0, 0)
_COMPILED_SUFFIXES: Final = (".so", ".pyd")

_PYTHON_SCRIPT: Final = """\
#!/bin/sh
# Python {version} of this machine, with the packages of this directory.
environment=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
PYTHONPATH="$environment/{packages}${{PYTHONPATH:+:$PYTHONPATH}}"
export PYTHONPATH
for python in python{version} python3 python; do
    if "$python" -c 'import sys; sys.exit(sys.version_info[:2] != {tuple})' 2>/dev/null; then
        exec "$python" "$@"
    fi
done
# Spark reports the version of this interpreter as a mismatch.
exec python3 "$@"
"""


# --- code of this package -----------------------------------------------------------------------


def package_archive(directory: Path) -> Path:
    """Archive this package, with its metadata, for executors that may not have it installed.

    Compiled modules are excluded: they cannot be imported from an archive or on other platforms.
    """
    archive = directory / "creek.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in sorted(_package_files(resources.files(DISTRIBUTION), DISTRIBUTION)):
            file.writestr(_zip_entry(name), content)
        name = f"{DISTRIBUTION}-{metadata.version(DISTRIBUTION)}.dist-info/METADATA"
        file.writestr(_zip_entry(name), _metadata_text())
    return archive


def _package_files(directory: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for each in directory.iterdir():
        name = f"{prefix}/{each.name}"
        if each.is_dir():
            if each.name != "__pycache__":
                yield from _package_files(each, name)
        elif not each.name.endswith(_COMPILED_SUFFIXES):
            yield name, each.read_bytes()


def _zip_entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _ZIP_TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _metadata_text() -> str:
    installed = metadata.distribution(DISTRIBUTION)
    text = installed.read_text("METADATA") or installed.read_text("PKG-INFO")
    if text is None:
        raise UsageError(f"cannot send {DISTRIBUTION}: its metadata is missing; install it again")
    return text


def send_code(spark: "SparkSession", scratch: Path, options: SparkOptions, is_remote: bool) -> None:
    """Send this package and the modules of the options to the executors.

    A Connect server receives archives in the same way. Elsewhere they are a setting of Spark.
    """
    files = [str(package_archive(scratch)), *options.py_files]
    if not is_remote:
        for file in files:
            spark.sparkContext.addPyFile(file)
        return
    spark.addArtifacts(*files, pyfile=True)
    if options.archives:
        spark.addArtifacts(*options.archives, archive=True)


# --- packages that executors need ---------------------------------------------------------------


class PackedEnvironment(NamedTuple):
    path: Path
    packages: tuple[str, ...]
    """Names and versions of the distributions in the archive."""
    python: str
    """Version of Python that the packages require, such as 3.11."""
    size: int
    """Size of the archive, in bytes."""


def executor_distributions(additional: Iterable[str] = ()) -> list[metadata.Distribution]:
    """Return the distributions that tasks need, with their requirements, except those of Spark."""
    from packaging.requirements import Requirement  # noqa: PLC0415 - optional dependency
    from packaging.utils import canonicalize_name  # noqa: PLC0415

    declared = map(Requirement, metadata.requires(DISTRIBUTION) or ())
    pending = [each for each in declared if _is_of_extra(each, EXECUTOR_EXTRA)]
    if not pending:
        raise UsageError(
            f"the installed metadata of {DISTRIBUTION} lacks the extra '{EXECUTOR_EXTRA}'; "
            f"install {DISTRIBUTION} again"
        )
    pending += map(Requirement, additional)
    found: dict[str, metadata.Distribution] = {}
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        if name in found or name in PROVIDED_BY_SPARK:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            raise UsageError(
                f"cannot pack {requirement.name}: it is not installed here; install it first"
            ) from None
        required = map(Requirement, found[name].requires or ())
        extras = requirement.extras or {""}
        pending += [
            each
            for each in required
            if each.marker is None or any(each.marker.evaluate({"extra": ex}) for ex in extras)
        ]
    return [found[name] for name in sorted(found)]


def _is_of_extra(requirement: "Requirement", extra: str) -> bool:
    marker = requirement.marker
    if marker is None or not marker.evaluate({"extra": extra}):
        return False
    return not marker.evaluate({"extra": ""})


def imported_names(distributions: Iterable[metadata.Distribution]) -> dict[str, str]:
    """Return the top-level modules of distributions, by the name of the distribution."""
    names = {each.metadata["Name"] for each in distributions}
    modules: dict[str, str] = {}
    for module, owners in sorted(metadata.packages_distributions().items()):
        for owner in owners:
            if owner in names and not module.startswith("_"):
                modules.setdefault(owner, module)
    return modules


def pack_environment(out: Path, additional: Iterable[str] = ()) -> PackedEnvironment:
    """Write the packages that executors need to an archive; equal packages give equal bytes."""
    distributions = executor_distributions(additional)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    script = _PYTHON_SCRIPT.format(
        version=version, packages=_PACKAGE_DIR, tuple=tuple(sys.version_info[:2])
    )
    try:
        with ExitStack() as stack:
            file = stack.enter_context(stack.enter_context(atomic_write(out)).open("wb"))
            stream = stack.enter_context(
                gzip.GzipFile("", "wb", compresslevel=GZIP_LEVEL, fileobj=file, mtime=0)
            )
            archive = stack.enter_context(
                tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT)
            )
            _add_file(archive, "bin/python", script.encode(), 0o755)
            for distribution in distributions:
                for name, path in sorted(_distribution_files(distribution)):
                    _add_file(archive, f"{_PACKAGE_DIR}/{name}", path.read_bytes(), 0o644)
    except OSError as error:
        raise StorageFault(f"cannot write {out}: {error.strerror or error}") from error
    return PackedEnvironment(
        path=out,
        packages=tuple(f"{each.metadata['Name']} {each.version}" for each in distributions),
        python=version,
        size=out.stat().st_size,
    )


def _distribution_files(distribution: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """Yield the files of a distribution, without scripts and caches."""
    if distribution.files is None:
        raise UsageError(
            f"cannot pack {distribution.metadata['Name']}: the list of its files is missing; "
            "install it with pip"
        )
    for file in distribution.files:
        is_cache = "__pycache__" in file.parts
        if ".." not in file.parts and not is_cache and file.name not in ("RECORD", "INSTALLER"):
            yield file.as_posix(), Path(str(file.locate()))


def _add_file(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


# --- check of the executors ---------------------------------------------------------------------


def check_executors(spark: "SparkSession", tasks: int) -> None:
    """Raise UsageError if executors run another Python, or lack packages; run `tasks` tasks.

    The tasks are plain Python functions, which do not need the packages themselves.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - optional dependency

    modules = {DISTRIBUTION: DISTRIBUTION, **imported_names(executor_distributions())}
    probe = F.udf(_probe(modules), "array<string>", useArrow=False)
    numbers = spark.range(0, tasks, 1, tasks)
    try:
        rows = numbers.select(probe("id").alias("worker")).collect()
    except Exception as error:
        problem = _probe_failure(str(error))
        if problem is None:
            raise
        raise UsageError(problem) from None
    for host, version, *problems in sorted(row.worker for row in rows):
        if problems:
            raise UsageError(
                f"executors on {host} cannot import {'; '.join(problems)} (Python {version}); "
                f"{PACK_REMEDY}"
            )


def _probe(modules: Mapping[str, str]) -> Any:
    """Return a function that returns host, version of Python, and packages that are missing.

    Spark sends a nested function by value. This package may be missing on the executors.
    """
    names = dict(modules)

    def probe(_: int) -> list[str]:
        import importlib  # noqa: PLC0415 - imported by the executor
        import platform  # noqa: PLC0415
        import socket  # noqa: PLC0415

        problems = []
        for distribution, module in names.items():
            try:
                importlib.import_module(module)
            except Exception as error:  # noqa: BLE001 - reported by the driver
                reason = " ".join(str(error).split())
                problems.append(f"{distribution} ({reason})")
        return [socket.gethostname(), platform.python_version(), *problems]

    return probe


_TASK_HOST = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor")
_PYTHON_MISMATCH = re.compile(r"Python in worker has different version: (\S+) than")
_BROKEN_PYTHON = re.compile(r"from pyspark\.daemon's stdout")
_MISSING_PYTHON = re.compile(r'Cannot run program "([^"]+)"')


def _probe_failure(text: str) -> str | None:
    """Return one line for a probe that could not run, or None if the cause is unknown."""
    match = _TASK_HOST.search(text)
    host = match[1] if match else socket.gethostname()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    remedy = PYTHON_REMEDY.format(version=version)
    if found := _PYTHON_MISMATCH.search(text):
        return f"executors on {host} run Python {found[1]}, the driver {version}; {remedy}"
    if missing := _MISSING_PYTHON.search(text):
        return f"executors on {host} cannot start '{missing[1]}': it does not exist; {remedy}"
    if _BROKEN_PYTHON.search(text):
        return (
            f"executors on {host} cannot run Spark's Python processes: they exit at once; "
            "see stderr in the logs of its worker"
        )
    return None
