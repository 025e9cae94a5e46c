"""Equal seeds give equal traces, independent of the iteration order of Python sets."""

import os
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

import pytest

import creekdb
from creekdb.datatypes import SAMPLERS, get_datatype
from creekdb.schemes.basic import BasicReplica
from creekdb.simulation import Simulation, scenario_from_seed
from tests.unit.schemes.fingerprint import fingerprint
from tests.unit.schemes.random_workload import busy_harness

ROOT = Path(__file__).parents[3]
SOURCES = Path(creekdb.__file__).parents[1]
"""Directory of the package under test, which may be compiled."""
SEEDS = (1, 5, 8, 13, 21)

PRINT_TRACES = "from tests.unit.schemes.test_schemes_determinism import *; print(traces())"


@cache
def traces() -> list[str]:
    """Return the trace hashes of a few simulations and the fingerprints of a few replicas."""
    results = []
    for seed in SEEDS:
        scenario = scenario_from_seed(seed)
        make = partial(
            BasicReplica,
            settings=scenario.protocol_settings(),
            datatype=get_datatype(scenario.datatype),
        )
        results.append(Simulation(scenario, make, SAMPLERS[scenario.datatype]).run().trace_hash)
        harness = busy_harness(seed)
        results += [str(sorted(fingerprint(harness[index]).items())) for index in range(3)]
    return results


@pytest.mark.parametrize("hash_seed", ["0", "1", "42"])
def test_traces_do_not_depend_on_the_hash_seed(hash_seed: str) -> None:
    results = subprocess.run(
        [sys.executable, "-c", PRINT_TRACES],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{SOURCES}:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert results.stdout.strip() == str(traces())


def test_different_seeds_give_different_traces() -> None:
    results = traces()
    assert len(set(results)) == len(results)
