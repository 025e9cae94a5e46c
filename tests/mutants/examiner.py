"""Runs the fuzzer on a copy of the package: `examiner.py FOLDER SCHEME FIRST SEEDS STEP`.

A process of its own, with FOLDER on PYTHONPATH, so that nothing of the unpatched package is loaded.
It examines the seeds from FIRST to below SEEDS and prints one line of JSON for each, until a seed
fails or all passed. Replicas are watched meanwhile (`tests/simulation/leisure.py`).
"""

import json
import signal
import sys
from pathlib import Path
from types import FrameType

sys.path.append(str(Path(__file__).resolve().parents[2]))  # run as a script, by its path

from creekdb import __file__ as package_file
from creekdb.simulation.fuzz import campaign
from creekdb.simulation.fuzz.campaign import SeedResult, run_seed
from tests.simulation.leisure import watched

SEED_S_MAX = 120
"""A replica that loops for ever inside one step does not even reach the simulator's own limit."""


def main(folder: Path, scheme: str, seeds: range) -> None:
    loaded = Path(package_file).resolve()
    if not loaded.is_relative_to(folder.resolve()):
        sys.exit(f"creek was loaded from {loaded.parent}, not from the copy in {folder}")
    signal.signal(signal.SIGALRM, _too_long)
    campaign.build_fuzz_simulation = watched
    for seed in seeds:
        signal.alarm(SEED_S_MAX)
        finding = run_seed(seed, scheme)
        signal.alarm(0)
        found = caught_by(finding)
        print(json.dumps({"seed": seed, "caught_by": found}), flush=True)
        if found is not None:
            return


def caught_by(finding: SeedResult) -> str | None:
    """The first checker that says Illegal, or cannot tell; when the run did not settle, one that
    says more."""
    if not finding.has_failed:
        return None
    if finding.crash is not None:
        return f"raised {_raised(finding.crash)}"
    names = [each.checker for each in finding.failed_verdicts]
    if finding.quiescence_failure is not None:
        names = [name for name in names if name != "convergence"]
        return names[0] if names else "did not settle"
    return names[0] if names else "not repeatable"


def _raised(crash: str) -> str:
    """The name of the exception, from the last line of its traceback that has one."""
    lines = [line for line in crash.splitlines() if line[:1].isalpha()]
    return lines[-1].split(":")[0].rpartition(".")[2]


def _too_long(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"a seed took more than {SEED_S_MAX} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], range(*map(int, sys.argv[3:])))
