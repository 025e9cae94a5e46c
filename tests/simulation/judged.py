"""A story that is told to a simulated cluster, which is watched and judged by every checker."""

from creekdb.checkers import Illegal, check_all
from creekdb.simulation.faults.language import parse_faults
from creekdb.simulation.kernel.cluster import Simulation, SimulationRun
from creekdb.simulation.kernel.scenario import ClientModel, Scenario
from tests.simulation.leisure import watched


def story(faults: str, replicas: int = 3, **settings: int) -> tuple[Simulation, SimulationRun]:
    """Some of a second under load."""
    scenario = Scenario(
        seed=5,
        scheme="both",
        datatype="bank",
        replicas=replicas,
        duration_us=800_000,
        clients=ClientModel(sessions=2, think_us=15_000, strong_share=0.2),
        settings=settings,
        record_orders=True,
        faults=parse_faults(faults),
    )
    simulation = watched(scenario)
    run = simulation.run()
    assert run.quiescence_failure is None
    illegal = [each.describe() for each in check_all(run.history) if isinstance(each, Illegal)]
    assert not illegal, illegal[0]
    return simulation, run
