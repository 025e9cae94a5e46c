"""Fuzz the decoders with random damage: `python -m tests.fuzzing --minutes 10`.

Every input comes from a seed. A failure prints its seed and ends the command with status 1.
"""

import argparse
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from types import FrameType
from typing import Final

from tests.fuzzing.feeds import check_random_feed_damage
from tests.fuzzing.journals import check_random_damage
from tests.fuzzing.mutations import random_damage
from tests.fuzzing.replicas import check_replica
from tests.fuzzing.targets import Target, targets

INPUT_TIMEOUT_S: Final = 10
"""Upper bound for the decoding of one input, in seconds."""


def _checks() -> dict[str, Callable[[Random], None]]:
    """Return the checks by name. Each one draws its input from a random generator."""
    checks: dict[str, Callable[[Random], None]] = {
        name: partial(_check_target, target) for name, target in targets().items()
    }
    return {
        **checks,
        "journal": check_random_damage,
        "change-feed": check_random_feed_damage,
        "replica": check_replica,
    }


def _check_target(target: Target, random: Random) -> None:
    target.check(random_damage(random, target.samples))


def _raise_hang(signal_number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"decoding took longer than {INPUT_TIMEOUT_S} s")


def run_seed(checks: dict[str, Callable[[Random], None]], seed: int) -> str:
    """Check one input, and return the name of its decoder."""
    random = Random(seed)
    name = random.choice(sorted(checks))
    signal.alarm(INPUT_TIMEOUT_S)
    try:
        checks[name](random)
    except BaseException as error:
        error.add_note(f"decoder {name}; repeat with --seed {seed} --inputs 1")
        raise
    finally:
        signal.alarm(0)
    return name


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="duration, in minutes")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first input")
    parser.add_argument("--inputs", type=int, help="number of inputs; by default, no limit")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGALRM, _raise_hang)
    checks = _checks()
    counts: Counter[str] = Counter()
    end_s = time.monotonic() + 60 * options.minutes
    seed = options.seed
    while time.monotonic() < end_s and seed != options.seed + (options.inputs or -1):
        try:
            counts[run_seed(checks, seed)] += 1
        except Exception:  # noqa: BLE001 - every exception here is a finding
            traceback.print_exc()
            return 1
        seed += 1
    for name in sorted(checks):
        print(f"{name:20} {counts[name]:>10,} inputs")
    print(f"no violation in {counts.total():,} inputs, seeds {options.seed} to {seed - 1}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
