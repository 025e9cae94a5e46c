"""The simulator: runs whole clusters of real replicas, breaks what can break, all from one seed.

In the order a run visits them: `plan` (seed to scenario), `scenario`, `cluster` (wires and runs),
`heap` (time), `workload` (clients), `node` (drives one replica) with `cpu`, `disk` and `clock`,
`network` with `noise`, `faults` and `injector`, and at the end `recorder`, `tally` and `trace`.
"""

from creekdb.simulation.faults.language import format_fault, parse_duration_us, parse_faults
from creekdb.simulation.fuzz.scenario_generator import scenario_from_seed
from creekdb.simulation.kernel.cluster import ReplicaFactory, Simulation, SimulationRun
from creekdb.simulation.kernel.scenario import (
    ClientModel,
    OperationSampler,
    Scenario,
    ScriptedInvocation,
    scenario_from_config,
)

__all__ = [
    "ClientModel",
    "OperationSampler",
    "ReplicaFactory",
    "Scenario",
    "ScriptedInvocation",
    "Simulation",
    "SimulationRun",
    "format_fault",
    "parse_duration_us",
    "parse_faults",
    "scenario_from_config",
    "scenario_from_seed",
]
