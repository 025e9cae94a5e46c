"""Compile the hot modules of Creek with mypyc.

`make compiled` runs this script. It compiles the modules below in a copy of the package, and writes
the extension modules to `build/compiled`, with a list of the sources that mypyc read. From then on
every process of this checkout loads them, until one of these sources changes
(`creekdb/checkout.py`). The source tree never contains compiled files. Compiled modules behave like
the source, with the same responses, errors and trace hashes (`make test-compiled`).

Without a C compiler nothing is built, and Creek runs interpreted. `setup.py` adds the same modules
to a wheel.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TextIO

MODULES: Final = (
    "driver/checkpoint_writer",
    "driver/release",
    "driver/snapshot_parts",
    "execution/base_state",
    "execution/declaration",
    "execution/footprint",
    "execution/keys",
    "execution/parameters",
    "execution/mvcc/entry",
    "execution/mvcc/estimates",
    "execution/mvcc/footprint_index",
    "execution/mvcc/merged_runs",
    "execution/mvcc/pinned_state",
    "execution/mvcc/read_index",
    "execution/mvcc/register_table",
    "execution/mvcc/scheduler",
    "execution/mvcc/snapshot",
    "execution/mvcc/state_loader",
    "execution/mvcc/version_chain",
    "execution/mvcc/version_store",
    "execution/result",
    "execution/serializable",
    "execution/transaction",
    "execution/undo",
    "protocol/broadcast/cab",
    "protocol/broadcast/cuts",
    "protocol/broadcast/reliable",
    "protocol/checkpoint/replay",
    "protocol/checkpoint/snapshot_sender",
    "protocol/consensus/acceptor",
    "protocol/consensus/delays",
    "protocol/consensus/fast_path",
    "protocol/consensus/fast_quorums",
    "protocol/consensus/leader",
    "protocol/consensus/learner",
    "protocol/consensus/omega",
    "protocol/consensus/proposal_queue",
    "protocol/ids/intervals",
    "protocol/ids/version_vector",
    "protocol/order",
    "protocol/outbox",
    "protocol/shared_variables",
    "protocol/sorted_blocks",
    "protocol/stack",
    "protocol/validation",
    "protocol/values",
    "schemes/archie",
    "schemes/basic",
    "schemes/core/execution",
    "schemes/core/finality",
    "schemes/core/local_reads",
    "schemes/core/ordering",
    "schemes/core/responses",
    "schemes/core/run_merging",
    "schemes/core/sequential",
    "schemes/core/stable_prefix",
    "schemes/core/tentative_responses",
    "schemes/core/versioned",
    "schemes/core/view",
    "schemes/creek",
    "server/calls/admission_control",
    "server/calls/dispatcher",
    "server/changes/encoding",
    "server/changes/feed",
    "server/observability/latency",
    "server/runtime/driver",
    "server/runtime/executors",
    "server/storage/direct_io",
    "server/storage/file_ops",
    "server/storage/io_uring",
    "server/storage/journal",
    "server/storage/segment_writer",
    "server/transport/client_connection",
    "server/transport/peer_link",
    "server/transport/peers",
    "simulation/kernel/node",
    "simulation/kernel/shared_executions",
    "simulation/kernel/simulated_time",
    "simulation/models/clients",
    "simulation/models/cpu",
    "simulation/models/disk",
    "simulation/models/network",
    "simulation/observation/recorder",
    "simulation/observation/trace",
    "sql/changes/execution",
    "sql/changes/row_writer",
    "sql/engine",
    "sql/key_codec",
    "sql/queries/virtual_tables",
    "sql/worker",
    "tpcc/layout",
    "tpcc/population/random_values",
    "tpcc/population/registers",
    "tpcc/population/rows",
    "tpcc/workload",
    "wire/deduplication",
    "wire/framing",
)
"""Modules in which a simulation or a live replica spends its time. Excluded are modules that define
a `msgspec.Struct` with options, which mypyc drops (requests, messages, effects, settings, models).
Also excluded are `datatype`, which inspects the stack of the running operation, and operations,
which belong to users."""

SUBCLASSED: Final = (
    "ArchieReplica",
    "BasicReplica",
    "FileOps",
    "CreekReplica",
    "EmptyBase",
    "IoUring",
    "Population",
    "ReplicaView",
    "TimedFileOps",
)
"""Classes with interpreted subclasses, which mypyc requires to be declared."""

COMPILER_INPUTS: Final = (
    "driver",
    "atomic_write.py",
    "errors.py",
    "execution",
    "history",
    "protocol",
    "schemes",
    "server",
    "simulation",
    "sql",
    "tpcc",
    "wire",
)
"""Files that mypyc reads. If they are unchanged, nothing is compiled again."""

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "src" / "creekdb"
BUILD: Final = ROOT / "build"
COMPILED: Final = BUILD / "compiled"
UNFINISHED: Final = BUILD / "compiling"
OBJECTS: Final = BUILD / "objects"
STAMP: Final = "sources.txt"
"""List of the extension modules and of their sources, which `creekdb/checkout.py` reads."""
BUILDER: Final = Path(__file__).with_name("mypyc_build.py")
COUNT_S: Final = 1.0
"""Interval between updates of the elapsed time on a terminal, in seconds."""
LINE_S: Final = 30.0
"""Interval between lines of elapsed time elsewhere, in seconds."""

_OPEN_DECORATOR: Final = """\
import mypy_extensions
@mypy_extensions.mypyc_attr(allow_interpreted_subclasses=True)"""


def main() -> int:
    if (missing := missing_tool()) is not None:
        shutil.rmtree(COMPILED, ignore_errors=True)
        print(f"Not compiled: {missing}; Creek runs interpreted.", file=sys.stderr)
        return 0
    return 0 if compile_modules() else 1


def compile_modules() -> bool:
    """Compile what has changed. Return False if mypyc or the C compiler reports errors."""
    inputs = describe_inputs()
    stamp = COMPILED / STAMP
    if stamp.is_file() and without_times(stamp.read_text()) == without_times(inputs):
        stamp.write_text(inputs)
        return True
    print(f"Compiling {len(MODULES)} modules; this takes a minute or two ...", file=sys.stderr)
    shutil.rmtree(UNFINISHED, ignore_errors=True)
    copy_sources(UNFINISHED / "creekdb")
    for module in MODULES:
        open_classes(UNFINISHED / "creekdb" / f"{module}.py")
    code, output = run_with_progress(
        [sys.executable, str(BUILDER), str(OBJECTS), *(f"creekdb/{each}.py" for each in MODULES)],
        UNFINISHED,
        {**os.environ, "MYPYPATH": "."},
        sys.stderr,
    )
    if code != 0:
        print(output, file=sys.stderr)
        print("Compilation failed: mypyc reported the errors above.", file=sys.stderr)
        return False
    shutil.rmtree(COMPILED, ignore_errors=True)
    for file in extension_files():
        (COMPILED / file).parent.mkdir(parents=True, exist_ok=True)
        (UNFINISHED / file).rename(COMPILED / file)
    shutil.rmtree(UNFINISHED)
    stamp.write_text(inputs)
    return True


def extension_files() -> list[Path]:
    """Return the relative paths of the shared library and of all extension modules."""
    suffix = EXTENSION_SUFFIXES[0]
    return [Path(f"creekdb__mypyc{suffix}"), *(Path(f"creekdb/{each}{suffix}") for each in MODULES)]


def run_with_progress(
    command: list[str],
    directory: Path,
    environment: dict[str, str],
    stream: TextIO,
    interval_s: float | None = None,
) -> tuple[int, str]:
    """Run a command and return its exit code and output.

    Meanwhile the elapsed time is printed to the stream: continuously on a terminal, otherwise as a
    line every `interval_s` seconds.
    """
    started, on_terminal = time.monotonic(), stream.isatty()
    interval_s = interval_s or (COUNT_S if on_terminal else LINE_S)
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output,
        subprocess.Popen(
            command, cwd=directory, env=environment, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            while True:
                try:
                    process.wait(interval_s)
                    break
                except subprocess.TimeoutExpired:
                    elapsed = f"  {time.monotonic() - started:.0f} s elapsed"
                    line = f"\r{elapsed}" if on_terminal else f"{elapsed}\n"
                    print(line, end="", file=stream, flush=True)
        except BaseException:
            process.kill()
            raise
        finally:
            if on_terminal:
                print("\r\033[K", end="", file=stream, flush=True)
        print(f"  {time.monotonic() - started:.0f} s in total", file=stream)
        output.seek(0)
        return process.returncode, output.read()


def missing_tool() -> str | None:
    """Return a description of the first missing requirement, or None."""
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    program = compiler.split()[0]
    for package in ("mypyc", "setuptools"):
        if find_spec(package) is None:
            return f"{package} is not installed"
    if shutil.which(program) is None:
        return f"no C compiler found ({program})"
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        return "the header files of Python are not installed"
    return None


def describe_inputs() -> str:
    """Return all inputs of the compilation as lines: Python, tools, extension modules, sources."""
    lines = [
        " ".join((EXTENSION_SUFFIXES[0], *sys.version.split())),
        *(f"tool {tool.name} {_digest(tool)}" for tool in (Path(__file__), BUILDER)),
        f"tool mypy {version('mypy')}",
    ]
    for file in extension_files():
        name = file.as_posix().removesuffix(EXTENSION_SUFFIXES[0]).replace("/", ".")
        lines.append(f"module {name} {file.as_posix()}")
    for name in COMPILER_INPUTS:
        path = SOURCE / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else (path,):
            state, relative = file.stat(), file.relative_to(SOURCE).as_posix()
            lines.append(f"source {relative} {state.st_size} {state.st_mtime_ns} {_digest(file)}")
    return "".join(f"{line}\n" for line in lines)


def without_times(stamp: str) -> str:
    return re.sub(r"^(source \S+ \d+) \d+", r"\1", stamp, flags=re.MULTILINE)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def open_classes(path: Path) -> None:
    """Mark the classes of `SUBCLASSED` in `path` as open to interpreted subclasses."""
    source = path.read_text()
    marked = re.sub(
        rf"^(?=class (?:{'|'.join(SUBCLASSED)})\b)",
        f"{_OPEN_DECORATOR}\n",
        source,
        flags=re.MULTILINE,
    )
    if marked != source:
        path.write_text(marked)


def copy_sources(target: Path) -> None:
    """Copy the Python files of the package, which mypyc reads and compiles."""
    for path in SOURCE.rglob("*.py"):
        copy = target / path.relative_to(SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)


if __name__ == "__main__":
    sys.exit(main())
