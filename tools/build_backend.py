"""PEP 517 build backend: setuptools, and mypyc if CREEK_USE_MYPYC=1.

A wheel is pure by default, also one that is built from the source distribution. With
`CREEK_USE_MYPYC=1` it contains the compiled modules (see `setup.py`). The versions of mypyc, and of
the packages whose types it reads, are those of `constraints.txt`.
"""

import os
from pathlib import Path
from typing import Any, Final

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

CONSTRAINTS: Final = Path(__file__).parents[1] / "constraints.txt"
COMPILER_PACKAGES: Final = ("apsw", "msgspec", "mypy", "sortedcontainers", "sortedcontainers-stubs")


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    requirements: list[str] = build_meta.get_requires_for_build_wheel(config_settings)
    return [*requirements, *(compiler_packages() if is_compiled() else ())]


def is_compiled() -> bool:
    """True if wheels are to contain compiled modules."""
    return os.environ.get("CREEK_USE_MYPYC", "0") not in ("", "0")


def compiler_packages() -> list[str]:
    """Return the pinned requirements of mypyc."""
    pins = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    return [pin for pin in pins if pin.partition("==")[0] in COMPILER_PACKAGES]
