"""Putting a simulation together: the scheme, the data type and the clients that a scenario names.

Ready-made data types are known by name; TPC-C's name tells its layout and its population too, so
that a scenario, or a history of it, is enough to build the same again.
"""

from creekdb import datatypes, tpcc
from creekdb.cluster.calling import Once
from creekdb.cluster.config import load_datatype
from creekdb.errors import UsageError
from creekdb.execution.datatype import DataType
from creekdb.history import LIVE, History
from creekdb.schemes import registry
from creekdb.simulation.cluster import Simulation
from creekdb.simulation.scenario import Scenario
from creekdb.simulation.sharing import SharedExecutions
from creekdb.simulation.workload import Source, source_of

TPCC = "tpcc"


def datatype_named(name: str) -> DataType:
    """The data type of that name, with its initial data, or `UnknownName`; one of your own as
    `package.module:variable`."""
    return load_datatype(name)


def datatype_of(history: History) -> DataType | None:
    """What was replicated, or None when it cannot be found here. On a live cluster, what clients
    call is wrapped, so that it is executed once."""
    try:
        if history.config.get("source") == LIVE:
            return Once(load_datatype(str(history.config["imported"])))
        return datatype_named(history.datatype)
    except UsageError:
        return None


def simulation_of(
    scenario: Scenario, datatype: DataType | None = None, named: DataType | None = None
) -> Simulation:
    """`datatype`: one that stands in for that of the scenario, for instance to debug it. Otherwise
    replicas share executions where that pays. `named`: the scenario's own, if it is at hand."""
    scheme = registry.named(scenario.scheme)
    chosen = datatype or named or datatype_named(scenario.datatype)
    if datatype is None and isinstance(chosen.base, tpcc.PopulationBase):
        chosen = SharedExecutions(chosen)
    settings = scenario.protocol_settings()
    return Simulation(
        scenario,
        lambda index: scheme(index, settings, chosen),
        source=_source(scenario, chosen),
    )


def _source(scenario: Scenario, datatype: DataType) -> Source | None:
    if isinstance(datatype.base, tpcc.PopulationBase):
        population = datatype.base.population
        return tpcc.Terminals(datatype, population, scenario.seed, scenario.nodes)
    sample = datatypes.SAMPLES.get(scenario.datatype)
    return None if sample is None else source_of(sample)
