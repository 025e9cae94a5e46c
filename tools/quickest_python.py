"""Which of the Pythons on the PATH an environment is made with: `make install` asks.

The first `python3.11`, or else `python3`; but builds of one and the same version differ in speed by
a quarter, as some are made without the compiler's optimizations (pyenv's, unless told otherwise),
and most of what a replica does is done by the interpreter itself. So each build of the first one's
version is timed, and another one is taken if it is much quicker and can do all that the first can:
make an environment, and have modules compiled for it. What was chosen, and why, goes to stderr.
"""

import json
import os
import subprocess
import sys
from typing import Any, Final

NAMES: Final = ("python3.11", "python3")
MUCH: Final = 0.9
"""Of the first one's time: what takes more is not worth another choice than the user's."""
ROUNDS: Final = 5

ABOUT: Final = """
import importlib.util, json, os, sys, sysconfig
print(json.dumps({
    "path": sys.executable,
    "home": os.path.realpath(sys.base_prefix),
    "version": sys.version_info[:2],
    "venv": all(map(importlib.util.find_spec, ("venv", "ensurepip"))),
    "headers": os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")),
}))
"""

PACE: Final = """
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
    found = _found(os.environ.get("PATH", os.defpath).split(os.pathsep))
    print(_chosen(found)["path"] if found else sys.executable)


def _found(folders: list[str]) -> list[dict[str, Any]]:
    """Those that are recent enough, each build once, the preferred ones first."""
    found: dict[str, dict[str, Any]] = {}
    for name in NAMES:
        for folder in folders:
            about = _said(os.path.join(folder, name), ABOUT)
            if about is not None and about["version"] >= [3, 11]:
                found.setdefault(about["home"], about)
    return list(found.values())


def _chosen(found: list[dict[str, Any]]) -> dict[str, Any]:
    first = found[0]
    rivals = [each for each in found if _can_stand_in(each, first)]
    if len(rivals) < len(("first", "another")):
        return first
    best = dict.fromkeys((each["path"] for each in rivals), float("inf"))
    for _ in range(ROUNDS):  # in turns: a slow moment of the machine is one of all
        for path in best:
            best[path] = min(best[path], _said(path, PACE) or float("inf"))
    quickest = min(rivals, key=lambda each: best[each["path"]])
    if best[quickest["path"]] > MUCH * best[first["path"]]:
        return first
    share = best[quickest["path"]] / best[first["path"]]
    print(
        f"Of the builds of Python {'.'.join(map(str, first['version']))} on the PATH, the first is "
        f"{first['path']};\n"
        f"{quickest['path']} takes {share:.0%} of its time for the same, and is used.\n"
        f"To have the first all the same: make PYTHON={first['path']} install",
        file=sys.stderr,
    )
    return quickest


def _can_stand_in(one: dict[str, Any], first: dict[str, Any]) -> bool:
    return one["version"] == first["version"] and all(
        one[what] or not first[what] for what in ("venv", "headers")
    )


def _said(python: str, program: str) -> Any:
    """None if it does not answer as a Python would."""
    if not os.access(python, os.X_OK):
        return None
    try:
        said = subprocess.run(
            [python, "-I", "-c", program], capture_output=True, timeout=60, check=True
        )
        return json.loads(said.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


if __name__ == "__main__":
    main()
