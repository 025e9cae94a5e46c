"""Debug runs, compared with the same run in another process with another hash seed.

The iteration order of a set of strings, for instance, depends on the hash seed. The child process
receives the scenario as JSON and returns the record of every execution.
"""

import os
import subprocess
import sys
from collections.abc import Iterable

import msgspec

from creekdb.errors import NotDeterministic
from creekdb.evaluation.experiment import build_simulation
from creekdb.execution.debug import DebugDataType, ExecutionRecord, first_difference
from creekdb.server.runtime.config import load_datatype
from creekdb.simulation.kernel.scenario import Scenario

CHILD_COMMAND = (
    sys.executable,
    "-c",
    "from creekdb.cli import determinism; determinism.run_child()",
)
HASH_SEED_VARIABLE = "PYTHONHASHSEED"


class ReplayResult(msgspec.Struct, frozen=True, array_like=True):
    journal: list[ExecutionRecord]
    problem: str | None = None
    """Nondeterminism that the child process detected itself."""


def compare_with_child(
    scenario: Scenario, ours: list[ExecutionRecord], hash_seeds: Iterable[str]
) -> NotDeterministic | None:
    """Repeat the run in another process; return the first difference from `ours`, or None.

    That process has the first of the hash seeds that this one does not have.
    """
    other = next(seed for seed in hash_seeds if seed != os.environ.get(HASH_SEED_VARIABLE))
    done = subprocess.run(
        CHILD_COMMAND,
        env={**os.environ, HASH_SEED_VARIABLE: other},
        input=msgspec.json.encode(scenario),
        stdout=subprocess.PIPE,
        check=True,
    )
    reply = msgspec.msgpack.decode(done.stdout, type=ReplayResult)
    if reply.problem is not None:
        return NotDeterministic(reply.problem)
    how = f"in another process, with {HASH_SEED_VARIABLE}={other}"
    return first_difference(scenario.datatype, ours, reply.journal, how)


def run_child() -> None:
    """Run the scenario of stdin and write its executions to stdout."""
    scenario = msgspec.json.decode(sys.stdin.buffer.read(), type=Scenario)
    datatype = DebugDataType(load_datatype(scenario.datatype))
    problem: str | None = None
    try:
        build_simulation(scenario, datatype).run()
    except NotDeterministic as error:
        problem = str(error)
    sys.stdout.buffer.write(msgspec.msgpack.encode(ReplayResult(datatype.execution_log, problem)))
