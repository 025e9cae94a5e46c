"""See that Creek, compiled, does to the letter what it does interpreted.

Both run the same seeds of the fuzzer, each in a process of its own. Equal trace hashes mean equal
inputs to every replica in every run; they cover what each execution answered.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
TREES: Final = {"compiled": ROOT / "build" / "compiled", "interpreted": ROOT / "src"}
SCHEMES: Final = ("basic", "creek", "both", "smr", "bayou", "archie")
SEEDS: Final = "30"


def main() -> int:
    if not (TREES["compiled"] / "creekdb").is_dir():
        print("There is nothing to compare: build/compiled is missing.", file=sys.stderr)
        return 1
    differ = False
    for scheme in SCHEMES:
        found = {how: fuzzed(scheme, tree) for how, tree in TREES.items()}
        if found["compiled"] == found["interpreted"]:
            print(f"{scheme:<8}the same: trace hash {found['compiled']['trace_hash']}")
            continue
        differ = True
        for how, score in found.items():
            print(f"{scheme:<8}{how}: {json.dumps(score)}")
    return 1 if differ else 0


def fuzzed(scheme: str, tree: Path) -> dict[str, Any]:
    """What the fuzzer has to say, but for how long it took."""
    done = subprocess.run(
        [sys.executable, "-m", "creekdb", "fuzz", "--scheme", scheme, "--seeds", SEEDS, "--json"],
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        check=True,
    )
    score: dict[str, Any] = json.loads(done.stdout)
    return score


if __name__ == "__main__":
    sys.exit(main())
