"""Compile Creek: the same package, with the modules that are busiest turned into machine code.

`make compiled` calls this. A copy of `src/creekdb` is made in `build/compiled`; mypyc compiles the
modules below in it; whoever has that first on its path runs it. The source tree itself never holds
anything compiled: what is edited there is what runs from there. What is compiled behaves as what is
not, with the same answers, errors and trace hashes (`make test-compiled`).

Where there is no C compiler nothing is built, and nothing is lost but time.
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
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TextIO

MODULES: Final = (
    "execution/base_state",
    "execution/keys",
    "execution/mvcc/entry",
    "execution/mvcc/merged_runs",
    "execution/mvcc/read_index",
    "execution/mvcc/register_table",
    "execution/mvcc/scheduler",
    "execution/mvcc/snapshot",
    "execution/mvcc/state_loader",
    "execution/mvcc/version_chain",
    "execution/mvcc/version_store",
    "execution/serializable",
    "execution/transaction",
    "execution/undo",
    "protocol/broadcast/cab",
    "protocol/broadcast/reliable",
    "protocol/checkpoint/compaction",
    "protocol/checkpoint/snapshot_sender",
    "protocol/consensus/acceptor",
    "protocol/consensus/leader",
    "protocol/consensus/learner",
    "protocol/consensus/omega",
    "protocol/durability",
    "protocol/ids/intervals",
    "protocol/ids/version_vector",
    "protocol/order",
    "protocol/outbox",
    "protocol/sorted_blocks",
    "protocol/stack",
    "protocol/validation",
    "protocol/values",
    "schemes/archie",
    "schemes/basic",
    "schemes/bayou",
    "schemes/core/ordering",
    "schemes/core/responses",
    "schemes/core/stable_prefix",
    "schemes/core/versioned",
    "schemes/creek",
    "schemes/smr",
    "server/calls/admission_control",
    "server/calls/dispatcher",
    "server/calls/relay",
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
    "tpcc/layout",
    "tpcc/population/random_values",
    "tpcc/population/registers",
    "tpcc/population/rows",
    "tpcc/workload",
    "wire/deduplication",
    "wire/framing",
)
"""What a simulation or a live replica spends its time in. Not among them: modules that define a
`msgspec.Struct` with options, which mypyc drops (requests, messages, effects, settings, models,
what travels); `datatype`, which looks at the stack of the operation that it runs; and operations,
which are the users' own."""

OPEN: Final = (
    "ArchieReplica",
    "BasicReplica",
    "BayouReplica",
    "FileOps",
    "CreekReplica",
    "ExecutionProgress",
    "EmptyBase",
    "OrderingReplica",
    "Population",
    "SmrReplica",
    "VersionedReplica",
)
"""Classes that others, which are not compiled, inherit from. mypyc wants to be told."""

SEEN: Final = (
    "errors.py",
    "execution",
    "history",
    "protocol",
    "schemes",
    "server",
    "simulation",
    "tpcc",
    "wire",
)
"""What mypyc reads of Creek: when nothing of it has changed, nothing is compiled again."""

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "src" / "creekdb"
BUILD: Final = ROOT / "build"
COMPILED: Final = BUILD / "compiled"
UNFINISHED: Final = BUILD / "compiling"
STAMP: Final = "sources.txt"
COUNT_S: Final = 1.0
"""Between two counts of seconds on a terminal."""
LINE_S: Final = 30.0
"""Between two lines elsewhere."""

_OPENS: Final = """\
import mypy_extensions
@mypy_extensions.mypyc_attr(allow_interpreted_subclasses=True)"""

_SETUP: Final = """\
import sys
from mypyc.build import mypycify
from setuptools import setup

options = ["--config-file=", "--follow-imports=silent", "--cache-dir=../mypy"]
modules = mypycify([*options, *sys.argv[1:]], opt_level="3")
setup(name="creekdb", ext_modules=modules, script_args=["--quiet", "build_ext", "--inplace"])
"""


def main() -> int:
    if (missing := missing_tool()) is not None:
        shutil.rmtree(COMPILED, ignore_errors=True)
        print(f"Not compiled, for {missing}: Creek runs interpreted.", file=sys.stderr)
        return 0
    stamp = f"{fingerprint()}\n"
    if (COMPILED / STAMP).is_file() and (COMPILED / STAMP).read_text() == stamp:
        copy_sources(COMPILED / "creekdb")  # what is not compiled may have changed
        return 0
    print(f"Compiling {len(MODULES)} modules, which takes some minutes ...", file=sys.stderr)
    shutil.rmtree(UNFINISHED, ignore_errors=True)
    copy_sources(UNFINISHED / "creekdb")
    for module in MODULES:
        open_classes(UNFINISHED / "creekdb" / f"{module}.py")
    code, said = run_aloud(
        [sys.executable, "-c", _SETUP, *(f"creekdb/{module}.py" for module in MODULES)],
        UNFINISHED,
        {**os.environ, "MYPYPATH": "."},
        sys.stderr,
    )
    if code != 0:
        print(said, file=sys.stderr)
        print("mypyc could not compile Creek: see above.", file=sys.stderr)
        return 1
    shutil.rmtree(UNFINISHED / "build")
    copy_sources(
        UNFINISHED / "creekdb"
    )  # runs are told apart by the sources that they were made by
    (UNFINISHED / STAMP).write_text(stamp)
    shutil.rmtree(COMPILED, ignore_errors=True)
    UNFINISHED.rename(COMPILED)
    return 0


def run_aloud(
    command: list[str], folder: Path, environment: dict[str, str], stream: TextIO
) -> tuple[int, str]:
    """Its exit code and what it said. Meanwhile the stream tells that it goes on: a terminal by
    seconds that are counted, anything else by a line once in a while."""
    begun, counts = time.monotonic(), stream.isatty()
    beat_s = COUNT_S if counts else LINE_S
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said,
        subprocess.Popen(
            command, cwd=folder, env=environment, stdout=said, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            while True:
                try:
                    process.wait(beat_s)
                    break
                except subprocess.TimeoutExpired:
                    so_far = f"  {time.monotonic() - begun:.0f} s so far"
                    print(
                        f"\r{so_far}" if counts else so_far, end="" if counts else "\n", file=stream
                    )
                    stream.flush()
        except BaseException:
            process.kill()
            raise
        finally:
            if counts:
                print("\r\033[K", end="", file=stream, flush=True)
        print(f"  {time.monotonic() - begun:.0f} s in all", file=stream)
        said.seek(0)
        return process.returncode, said.read()


def missing_tool() -> str | None:
    """What is not there that compiling needs, in a few words; or None."""
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    program = compiler.split()[0]
    for package in ("mypyc", "setuptools"):
        if find_spec(package) is None:
            return f"{package} is not installed"
    if shutil.which(program) is None:
        return f"there is no C compiler ({program})"
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        return "the headers of Python are not installed"
    return None


def fingerprint() -> str:
    """Of all that decides what comes out of compiling."""
    digest = hashlib.sha256()
    for part in (
        Path(__file__).read_text(),
        sys.version,
        version("mypy"),
        sysconfig.get_platform(),
    ):
        digest.update(part.encode())
    for name in SEEN:
        path = SOURCE / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else (path,):
            digest.update(f"\n{file.relative_to(SOURCE)}\n".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def open_classes(path: Path) -> None:
    """Let the classes in `path` that are `OPEN` be inherited from."""
    source = path.read_text()
    opened = re.sub(
        rf"^(?=class (?:{'|'.join(OPEN)})\b)", f"{_OPENS}\n", source, flags=re.MULTILINE
    )
    if opened != source:
        path.write_text(opened)


def copy_sources(target: Path) -> None:
    """Make `target` hold what the package holds, and leave what was compiled there."""
    wanted = {
        path.relative_to(SOURCE)
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for path in wanted:
        copy = target / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.is_file() or copy.read_bytes() != (SOURCE / path).read_bytes():
            shutil.copy2(SOURCE / path, copy)
    for copy in [path for path in target.rglob("*.py") if path.relative_to(target) not in wanted]:
        copy.unlink()


if __name__ == "__main__":
    sys.exit(main())
