"""A run in debug mode, and the same run repeated by another process with another hash seed.

What a process hashes differently, it iterates over in another order: a set of texts, for instance.
The scenario goes in as JSON, the journal of every execution comes back.
"""

import os
import subprocess
import sys

import msgspec

from creekdb.errors import NotDeterministic
from creekdb.evaluation.experiment import datatype_named, simulation_of
from creekdb.execution.debug import Debugged, Executed, first_difference
from creekdb.simulation.kernel.scenario import Scenario

COMMAND = (sys.executable, "-c", "from creekdb.cli import again; again.main()")
HASH_SEEDS = ("1", "2")
HASH_SEED = "PYTHONHASHSEED"


class Reply(msgspec.Struct, frozen=True, array_like=True):
    journal: list[Executed]
    problem: str | None = None
    """What it found by itself."""


def repeat(scenario: Scenario, ours: list[Executed]) -> NotDeterministic | None:
    """Run it once more in another process; what it does otherwise than `ours`, or None."""
    other = next(seed for seed in HASH_SEEDS if seed != os.environ.get(HASH_SEED))
    done = subprocess.run(
        COMMAND,
        env={**os.environ, HASH_SEED: other},
        input=msgspec.json.encode(scenario),
        stdout=subprocess.PIPE,
        check=True,
    )
    reply = msgspec.msgpack.decode(done.stdout, type=Reply)
    if reply.problem is not None:
        return NotDeterministic(reply.problem)
    how = f"in another process, with {HASH_SEED}={other}"
    return first_difference(scenario.datatype, ours, reply.journal, how)


def main() -> None:
    """The other process."""
    scenario = msgspec.json.decode(sys.stdin.buffer.read(), type=Scenario)
    datatype = Debugged(datatype_named(scenario.datatype))
    problem: str | None = None
    try:
        simulation_of(scenario, datatype).run()
    except NotDeterministic as error:
        problem = str(error)
    sys.stdout.buffer.write(msgspec.msgpack.encode(Reply(datatype.journal, problem)))
