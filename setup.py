"""Adds the compiled modules to a wheel if CREEK_USE_MYPYC=1. pyproject.toml states all the rest."""

import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).resolve().parent))

from tools.build_backend import is_compiled
from tools.compile import COMPILED, compile_modules, extension_files, missing_tool


class CompiledModules(build_ext):  # type: ignore[misc]  # setuptools has no types
    """Compiles the modules like `make compiled`, and copies them into the wheel."""

    def run(self) -> None:
        if self.editable_mode:  # `make compiled` is for checkouts
            return
        if (missing := missing_tool()) is not None:
            sys.exit(
                f"cannot compile the wheel: {missing}; build a pure one with CREEK_USE_MYPYC=0"
            )
        if not compile_modules():
            sys.exit(1)
        for file in extension_files():
            target = Path(self.build_lib, file)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(COMPILED / file, target)

    def get_outputs(self) -> list[str]:
        return [str(Path(self.build_lib, file)) for file in extension_files()]


if is_compiled():
    # The extension only marks the wheel as one for this platform. The command above ignores it.
    extension = Extension("creekdb__mypyc", sources=[])
    setup(ext_modules=[extension], cmdclass={"build_ext": CompiledModules})
else:
    setup()
