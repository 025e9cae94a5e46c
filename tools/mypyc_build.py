"""Build extension modules with mypyc and a C compiler, in the current directory.

`tools/compile.py` runs this script in a copy of the package: `mypyc_build.py CACHE MODULE.py …`.
mypyc writes one C file per module, because compilers need several times as long for one file with
all modules. Object files are compiled in parallel. An object file is reused from the directory
CACHE if the C code, its headers and the options are those of an earlier build.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from mypyc.build import mypycify
from setuptools import setup
from setuptools.command.build_ext import build_ext

MYPY_OPTIONS: Final = ("--config-file=", "--follow-imports=silent", "--cache-dir=../mypy")
C_OPTIONS: Final = ("-fvisibility=hidden",)
"""Functions of the shared library call each other without the procedure linkage table."""
GROUP: Final = "creekdb"
"""Name of the shared library, without the suffix `__mypyc`."""
JOBS: Final = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


class ObjectCache:
    """Object files of earlier builds, by a digest of everything that they depend on."""

    def __init__(self, directory: Path, context: Iterable[bytes]) -> None:
        self._directory = directory
        self._context = hashlib.sha256(b"\0".join(context)).digest()
        self._used: set[str] = set()
        directory.mkdir(parents=True, exist_ok=True)

    def restore(self, source: Path, options: Iterable[str], target: Path) -> bool:
        """Copy the object file to `target` and return True, or return False if it is missing."""
        cached = self._path(source, options)
        if not cached.is_file():
            return False
        shutil.copyfile(cached, target)
        return True

    def store(self, source: Path, options: Iterable[str], target: Path) -> None:
        cached = self._path(source, options)
        partial = cached.with_suffix(".partial")
        shutil.copyfile(target, partial)
        partial.rename(cached)

    def remove_unused(self) -> None:
        """Remove the files that neither `restore` nor `store` named."""
        for path in self._directory.iterdir():
            if path.name not in self._used:
                path.unlink()

    def _path(self, source: Path, options: Iterable[str]) -> Path:
        parts = (self._context, source.read_bytes(), "\0".join(options).encode())
        name = f"{hashlib.sha256(b''.join(parts)).hexdigest()}.o"
        self._used.add(name)
        return self._directory / name


class ParallelBuild(build_ext):  # type: ignore[misc]  # setuptools has no types
    """Compiles the sources of an extension in parallel."""

    cache: ObjectCache

    def build_extensions(self) -> None:
        self.compiler.compile = self._compile
        super().build_extensions()

    def _compile(
        self,
        sources: list[str],
        output_dir: str | None = None,
        macros: Any = None,
        include_dirs: Any = None,
        debug: bool = False,
        extra_preargs: Any = None,
        extra_postargs: Any = None,
        depends: Any = None,
    ) -> list[str]:
        """Compile like `setuptools`, but in parallel and with the cache."""
        compiler: Any = self.compiler
        macros, objects, extra_postargs, pp_opts, build = compiler._setup_compile(
            output_dir, macros, include_dirs, sources, depends, extra_postargs
        )
        cc_args = compiler._get_cc_args(pp_opts, debug, extra_preargs)

        def compile_object(target: str) -> None:
            source, extension = build[target]
            options = [each for each in (*cc_args, *extra_postargs) if not each.startswith("-I")]
            if not self.cache.restore(Path(source), options, Path(target)):
                compiler._compile(target, source, extension, cc_args, extra_postargs, pp_opts)
                self.cache.store(Path(source), options, Path(target))

        with ThreadPoolExecutor(JOBS) as pool:
            list(pool.map(compile_object, objects))
        return list(objects)


def compiler_version() -> bytes:
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    return subprocess.run([*compiler, "--version"], stdout=subprocess.PIPE, check=False).stdout


def main(cache: str, *modules: str) -> None:
    extensions = mypycify(
        [*MYPY_OPTIONS, *modules],
        opt_level="2",
        debug_level="0",
        multi_file=True,
        group_name=GROUP,
    )
    for extension in extensions:
        extension.extra_compile_args = [*extension.extra_compile_args, *C_OPTIONS]
    headers = sorted(Path("build").rglob("*.h"))
    context = (sys.version.encode(), version("mypy").encode(), compiler_version())
    ParallelBuild.cache = ObjectCache(
        Path(cache), [*context, *(each.read_bytes() for each in headers)]
    )
    setup(
        name="creekdb",
        ext_modules=extensions,
        cmdclass={"build_ext": ParallelBuild},
        script_args=["--quiet", "build_ext", "--inplace", f"--parallel={JOBS}"],
    )
    ParallelBuild.cache.remove_unused()


if __name__ == "__main__":
    main(*sys.argv[1:])
