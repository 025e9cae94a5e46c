"""Machine that shares neither packages nor temporary files with the driver: a mount namespace.

The namespace hides the driver's packages, sources and temporary files. It has an interpreter of its
own without packages, and a copy of Spark at another path. One directory is shared.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

import pyspark

import creekdb
from creekdb.pipeline.spark.java import java_home
from tests.pipeline.standalone_cluster import Machine

MOUNTS: Final = Path("/mnt")
"""Directory of the namespace for all that it contains besides the system."""


def missing_permission() -> str | None:
    """Return the reason why namespaces cannot be created here, or None."""
    if shutil.which("unshare") is None or not MOUNTS.is_dir():
        return "requires unshare and /mnt"
    probe = [*_unshare(), "mount", "-t", "tmpfs", "tmpfs", str(MOUNTS)]
    result = subprocess.run(probe, capture_output=True, text=True, check=False)
    return None if result.returncode == 0 else f"no mount namespaces: {result.stderr.strip()}"


def _unshare() -> tuple[str, ...]:
    rights = () if os.getuid() == 0 else ("--map-root-user",)
    return ("unshare", *rights, "--mount")


def foreign_machine(directory: Path, shared: Path) -> Machine:
    """Return a machine whose interpreter is created in `directory`."""
    python = directory / "python"
    venv = [sys.executable, "-m", "venv", "--copies", "--without-pip", str(python)]
    subprocess.run(venv, check=True)
    work = directory / "work"
    work.mkdir()
    java = java_home(directory / "java")
    visible = {
        MOUNTS / "spark": Path(pyspark.__file__).parent,
        MOUNTS / "python": python,
        MOUNTS / "java": java,
        MOUNTS / "work": work,
        MOUNTS / "shared": shared,
    }
    in_venv = sys.prefix != sys.base_prefix
    hidden = {
        Path("/tmp"),
        Path(tempfile.gettempdir()),
        Path(sys.prefix if in_venv else sysconfig.get_path("purelib")),
        Path(creekdb.__file__).parents[1],
    }
    script = directory / "enter"
    lines = ["set -e", "mount --make-rprivate /", _tmpfs(MOUNTS)]
    for path, source in visible.items():
        lines += [f"mkdir {_quote(path)}", f"mount --rbind {_quote(source)} {_quote(path)}"]
    outermost = [path for path in sorted(hidden) if hidden.isdisjoint(path.parents)]
    lines += map(_tmpfs, outermost)
    lines += [
        f"mkdir -p {_quote(shared)}",
        f"mount --rbind {_quote(MOUNTS / 'shared')} {_quote(shared)}",
        f"cd {_quote(MOUNTS / 'work')}",
        'exec "$@"',
    ]
    script.write_text("\n".join(lines) + "\n")
    return Machine(
        spark_home=MOUNTS / "spark",
        prefix=(*_unshare(), "sh", str(script)),
        environ={
            "PATH": f"{MOUNTS / 'python' / 'bin'}:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(MOUNTS / "work"),
            "JAVA_HOME": str(MOUNTS / "java"),
            "SPARK_HOME": str(MOUNTS / "spark"),
            "TMPDIR": str(MOUNTS / "work"),
            "JAVA_TOOL_OPTIONS": os.environ.get("JAVA_TOOL_OPTIONS", ""),
        },
    )


def _tmpfs(path: Path) -> str:
    return f"mount -t tmpfs tmpfs {_quote(path)}"


def _quote(path: Path) -> str:
    return shlex.quote(str(path))
