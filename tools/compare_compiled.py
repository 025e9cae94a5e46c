"""Check that the compiled package behaves exactly like the source.

Both run the same seeds of the fuzzer, each in its own process. Equal trace hashes mean equal inputs
to every replica in every run, including the outcome of every execution.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from creekdb.schemes.registry import BUILT_IN

ROOT: Final = Path(__file__).resolve().parent.parent
TREES: Final = {"compiled": ROOT / "build" / "compiled", "interpreted": ROOT / "src"}
SEEDS: Final = "30"


def main() -> int:
    if not (TREES["compiled"] / "creekdb").is_dir():
        print("build/compiled is missing; run `make compiled` first", file=sys.stderr)
        return 1
    differ = False
    for scheme in BUILT_IN:
        scores = {name: fuzz(scheme, tree) for name, tree in TREES.items()}
        if scores["compiled"] == scores["interpreted"]:
            print(f"{scheme:<13}equal: trace hash {scores['compiled']['trace_hash']}")
            continue
        differ = True
        for name, score in scores.items():
            print(f"{scheme:<13}{name}: {json.dumps(score)}")
    return 1 if differ else 0


def fuzz(scheme: str, tree: Path) -> dict[str, Any]:
    """Return the score that the fuzzer prints."""
    completed = subprocess.run(
        [sys.executable, "-m", "creekdb", "fuzz", "--scheme", scheme, "--seeds", SEEDS, "--json"],
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        check=True,
    )
    score: dict[str, Any] = json.loads(completed.stdout)
    return score


if __name__ == "__main__":
    sys.exit(main())
