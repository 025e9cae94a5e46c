"""Deterministic simulator: runs whole clusters of real replicas, with faults, from one seed.

Packages, in the order in which a run visits them:

- `fuzz` derives a scenario from a seed and runs campaigns of many seeds.
- `kernel` holds the scenario, the event heap, the cluster and the driver of one replica.
- `models` simulates clients, cores, disks and the network.
- `faults` defines the faults and their language, and injects them.
- `observation` records the history, counters, samples and the trace hash.
"""

from creekdb.simulation.faults.fields import parse_duration_us as parse_duration_us
from creekdb.simulation.faults.language import format_fault as format_fault
from creekdb.simulation.faults.language import parse_faults as parse_faults
from creekdb.simulation.fuzz.scenario_generator import scenario_from_seed as scenario_from_seed
from creekdb.simulation.kernel.cluster import ReplicaFactory as ReplicaFactory
from creekdb.simulation.kernel.cluster import Simulation as Simulation
from creekdb.simulation.kernel.cluster import SimulationRun as SimulationRun
from creekdb.simulation.kernel.scenario import ClientModel as ClientModel
from creekdb.simulation.kernel.scenario import OperationSampler as OperationSampler
from creekdb.simulation.kernel.scenario import Scenario as Scenario
from creekdb.simulation.kernel.scenario import ScriptedInvocation as ScriptedInvocation
from creekdb.simulation.kernel.scenario import scenario_from_config as scenario_from_config
