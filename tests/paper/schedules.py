"""Simulated runs for properties that quantify over schedules."""

from functools import cache

from creekdb.checkers import Verdict, check_all
from creekdb.datatypes import SAMPLERS, get_datatype
from creekdb.schemes.basic import BasicReplica
from creekdb.simulation.fuzz.scenario_generator import scenario_from_seed
from creekdb.simulation.kernel.cluster import Simulation, SimulationRun

SEEDS = range(24)
"""Seeds of scenarios with crashes, partitions, message loss and other faults."""


@cache
def run(seed: int) -> SimulationRun:
    scenario = scenario_from_seed(seed)
    settings, datatype = scenario.protocol_settings(), get_datatype(scenario.datatype)

    def make_replica(index: int) -> BasicReplica:
        return BasicReplica(index, settings, datatype)

    return Simulation(scenario, make_replica, SAMPLERS[scenario.datatype]).run()


@cache
def verdicts(seed: int) -> dict[str, Verdict]:
    """Return the verdicts on the run of the seed, by checker."""
    return {verdict.checker: verdict for verdict in check_all(run(seed).history)}
