"""Check that the compiled modules behave exactly like their sources: `compare_compiled.py [SEEDS]`.

Both run the same seeds of the fuzzer, each in its own process. Equal trace hashes mean equal inputs
to every replica in every run, including the outcome of every execution. The schemes are the
built-in ones, and that of docs/add-your-own-scheme.md, an interpreted subclass of a compiled class.

Both also run thousands of operations that misuse their transaction. The responses must be equal.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from creekdb.checkout import STAMP, VARIABLE
from creekdb.schemes.registry import BUILT_IN

ROOT: Final = Path(__file__).resolve().parent.parent
COMPILED: Final = ROOT / "build" / "compiled"
PAGE: Final = ROOT / "docs" / "add-your-own-scheme.md"
MODES: Final = {"compiled": "1", "interpreted": "0"}
SEEDS: Final = 30
"""Number of seeds for each scheme."""


def main(seeds: int) -> int:
    if not (COMPILED / STAMP).is_file():
        print("Not compared: there are no compiled modules (see 'make compiled').", file=sys.stderr)
        return 0
    differ = False
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor() as pool:
        name, source = example_scheme(PAGE.read_text(encoding="utf-8"))
        Path(directory, f"{name.partition(':')[0]}.py").write_text(source, encoding="utf-8")
        for scheme in (*BUILT_IN, name):
            runs = {
                build: pool.submit(fuzz, scheme, seeds, mode, directory)
                for build, mode in MODES.items()
            }
            scores = {build: run.result() for build, run in runs.items()}
            if scores["compiled"] == scores["interpreted"]:
                print(f"{scheme:<17}equal: trace hash {scores['compiled']['trace_hash']}")
                continue
            differ = True
            for build, score in scores.items():
                print(f"{scheme:<17}{build}: {json.dumps(score)}")
    differ |= report_outcomes({build: hostile_outcomes(mode) for build, mode in MODES.items()})
    return 1 if differ else 0


def report_outcomes(outcomes: dict[str, list[str]]) -> bool:
    """Print the outcomes that differ, or how many there are. Return True if some differ."""
    pairs = list(zip(outcomes["compiled"], outcomes["interpreted"], strict=True))
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    for compiled, interpreted in differing:
        print(f"compiled:    {compiled}\ninterpreted: {interpreted}")
    if not differing:
        print(f"hostile calls    equal: {len(pairs)} outcomes")
    return bool(differing)


def example_scheme(page: str) -> tuple[str, str]:
    """Return the name of the scheme that a page defines, as `module:Class`, and its source."""
    source = re.search(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    name = re.search(r"--scheme (\w+:\w+)", page)
    assert source is not None
    assert name is not None
    return name[1], source[1]


def hostile_outcomes(mode: str) -> list[str]:
    """Return the outcomes of operations that misuse their transaction, one per line."""
    completed = subprocess.run(
        [sys.executable, "-m", "tests.unit.execution.hostile_calls"],
        cwd=ROOT,
        env={**os.environ, VARIABLE: mode},
        stdout=subprocess.PIPE,
        check=True,
    )
    return completed.stdout.decode().splitlines()


def fuzz(scheme: str, seeds: int, mode: str, directory: str) -> dict[str, Any]:
    """Return the score that the fuzzer prints."""
    options = ("--scheme", scheme, "--seeds", str(seeds), "--json")
    completed = subprocess.run(
        [sys.executable, "-m", "creekdb", "fuzz", *options],
        env={**os.environ, VARIABLE: mode, "PYTHONPATH": directory},
        stdout=subprocess.PIPE,
        check=True,
    )
    score: dict[str, Any] = json.loads(completed.stdout)
    return score


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS))
