"""Runs the fuzzer on a copy of the package: `examiner.py DIRECTORY SCHEME FIRST SEEDS STEP`.

The script is a separate process with DIRECTORY on PYTHONPATH, so that it loads no module of the
original package. It examines the seeds from FIRST up to SEEDS (exclusive) and prints one line of
JSON for each, until a seed fails. The idle watch observes the replicas
(`tests/simulation/idle_watch.py`).
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
from tests.simulation.idle_watch import build_watched_simulation

SEED_S_MAX = 120
"""Time limit of one seed, in seconds. An endless loop inside one step never reaches the simulator's
own limit."""


def main(directory: Path, scheme: str, seeds: range) -> None:
    loaded = Path(package_file).resolve()
    if not loaded.is_relative_to(directory.resolve()):
        sys.exit(f"creek was loaded from {loaded.parent}, not from the copy in {directory}")
    signal.signal(signal.SIGALRM, _on_timeout)
    campaign.build_fuzz_simulation = build_watched_simulation
    for seed in seeds:
        signal.alarm(SEED_S_MAX)
        result = run_seed(seed, scheme)
        signal.alarm(0)
        failed_check = caught_by(result)
        print(json.dumps({"seed": seed, "caught_by": failed_check}), flush=True)
        if failed_check is not None:
            return


def caught_by(result: SeedResult) -> str | None:
    """Return the first checker whose verdict is illegal or undecided. If the run did not become
    quiescent, prefer a checker other than convergence."""
    if not result.has_failed:
        return None
    if result.crash is not None:
        return f"raised {_exception_name(result.crash)}"
    names = [each.checker for each in result.failed_verdicts]
    if result.quiescence_failure is not None:
        names = [name for name in names if name != "convergence"]
        return names[0] if names else "not quiescent"
    return names[0] if names else "not deterministic"


def _exception_name(crash: str) -> str:
    """Return the exception name in the last line of the traceback that has one."""
    lines = [line for line in crash.splitlines() if line[:1].isalpha()]
    return lines[-1].split(":")[0].rpartition(".")[2]


def _on_timeout(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"a seed took more than {SEED_S_MAX} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], range(*map(int, sys.argv[3:])))
