"""The same seed gives the same trace, whatever order Python gives its sets."""

import os
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

import pytest

from creekdb.datatypes import SAMPLERS, get_datatype
from creekdb.schemes.basic import BasicReplica
from creekdb.simulation import Simulation, scenario_from_seed
from tests.unit.schemes.busy import busy_bench
from tests.unit.schemes.fingerprint import fingerprint

ROOT = Path(__file__).parents[3]
SEEDS = (1, 5, 8, 13, 21)

PRINT = "from tests.unit.schemes.test_determinism import *; print(traces())"


@cache
def traces() -> list[str]:
    """The trace hashes of a few simulations, and the fingerprints of a few replicas."""
    found = []
    for seed in SEEDS:
        scenario = scenario_from_seed(seed)
        make = partial(
            BasicReplica,
            settings=scenario.protocol_settings(),
            datatype=get_datatype(scenario.datatype),
        )
        found.append(Simulation(scenario, make, SAMPLERS[scenario.datatype]).run().trace_hash)
        bench = busy_bench(seed)
        found += [str(sorted(fingerprint(bench[index]).items())) for index in range(3)]
    return found


@pytest.mark.parametrize("hash_seed", ["0", "1", "42"])
def test_no_order_of_a_set_influences_a_replica(hash_seed: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", PRINT],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == str(traces())


def test_another_seed_gives_another_trace() -> None:
    found = traces()
    assert len(set(found)) == len(found)
