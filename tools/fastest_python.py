"""Select the Python interpreter for `.venv`. Called by `make install`.

The default is the first `python3.11` on the PATH, or else `python3`. Builds of one version differ
in speed by a quarter, because some lack compiler optimisations (pyenv's default builds, for
example). A replica spends most of its time in the interpreter. Therefore every build of the
default's version is timed. Another build is selected if it is much faster and has the same
features: `venv` and the headers that compiled modules need. The choice and its reason are printed
to stderr.
"""

import json
import os
import subprocess
import sys
from typing import Any, Final

NAMES: Final = ("python3.11", "python3")
FASTER_RATIO: Final = 0.9
"""Upper bound for the time of another build, relative to the default's."""
ROUNDS: Final = 5

DESCRIBE: Final = """
import importlib.util, json, os, sys, sysconfig
print(json.dumps({
    "path": sys.executable,
    "home": os.path.realpath(sys.base_prefix),
    "version": sys.version_info[:2],
    "venv": all(map(importlib.util.find_spec, ("venv", "ensurepip"))),
    "headers": os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")),
}))
"""

BENCHMARK: Final = """
import time
class Row:
    __slots__ = ("key", "pair")
    def __init__(self, key, pair):
        self.key, self.pair = key, pair
    def moved(self, by):
        return self.key + by
rows, moved, begun = {}, [], time.process_time()
for number in range(60_000):
    row = rows[number & 1023] = Row(number, (number, number + 1))
    moved.append(row.moved(3))
    if len(moved) > 100:
        moved.clear()
    {each for each in row.pair}
print(time.process_time() - begun)
"""


def main() -> None:
    builds = _find_builds(os.environ.get("PATH", os.defpath).split(os.pathsep))
    print(_select(builds)["path"] if builds else sys.executable)


def _find_builds(directories: list[str]) -> list[dict[str, Any]]:
    """Return the recent builds on the PATH, each once, preferred names first."""
    builds: dict[str, dict[str, Any]] = {}
    for name in NAMES:
        for directory in directories:
            about = _run(os.path.join(directory, name), DESCRIBE)
            if about is not None and about["version"] >= [3, 11]:
                builds.setdefault(about["home"], about)
    return list(builds.values())


def _select(builds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the fastest build that can replace the first one."""
    first = builds[0]
    candidates = [build for build in builds if _can_replace(build, first)]
    if len(candidates) == 1:
        return first
    best = dict.fromkeys((build["path"] for build in candidates), float("inf"))
    for _ in range(ROUNDS):  # in turns, so that a slow moment of the machine affects all
        for path in best:
            best[path] = min(best[path], _run(path, BENCHMARK) or float("inf"))
    fastest = min(candidates, key=lambda build: best[build["path"]])
    if best[fastest["path"]] > FASTER_RATIO * best[first["path"]]:
        return first
    share = best[fastest["path"]] / best[first["path"]]
    print(
        f"Selected Python {'.'.join(map(str, first['version']))}: {fastest['path']}\n"
        f"It needs {share:.0%} of the time of the first build on the PATH, {first['path']}.\n"
        f"To use the first build: make PYTHON={first['path']} install",
        file=sys.stderr,
    )
    return fastest


def _can_replace(build: dict[str, Any], first: dict[str, Any]) -> bool:
    """True if `build` has the version and all features of `first`."""
    return build["version"] == first["version"] and all(
        build[feature] or not first[feature] for feature in ("venv", "headers")
    )


def _run(python: str, program: str) -> Any:
    """Return the JSON that `program` prints, or None if the interpreter fails."""
    if not os.access(python, os.X_OK):
        return None
    try:
        done = subprocess.run(
            [python, "-I", "-c", program], capture_output=True, timeout=60, check=True
        )
        return json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


if __name__ == "__main__":
    main()
