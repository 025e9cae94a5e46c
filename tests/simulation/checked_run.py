"""Runs a fault schedule on a simulated cluster that is watched and checked by every checker."""

from creekdb.checkers import Illegal, check_all
from creekdb.simulation.faults.language import parse_faults
from creekdb.simulation.kernel.cluster import Simulation, SimulationRun
from creekdb.simulation.kernel.scenario import ClientModel, Scenario
from tests.simulation.idle_watch import build_watched_simulation


def run_checked(
    faults: str, replicas: int = 3, **settings: int
) -> tuple[Simulation, SimulationRun]:
    """Run the faults for 0.8 s under load; fail unless the cluster quiesces and all checks pass."""
    scenario = Scenario(
        seed=5,
        scheme="differential",
        datatype="bank",
        replicas=replicas,
        duration_us=800_000,
        clients=ClientModel(sessions=2, think_us=15_000, strong_share=0.2),
        settings=settings,
        record_orders=True,
        faults=parse_faults(faults),
    )
    simulation = build_watched_simulation(scenario)
    run = simulation.run()
    assert run.quiescence_failure is None
    illegal = [each.describe() for each in check_all(run.history) if isinstance(each, Illegal)]
    assert not illegal, illegal[0]
    return simulation, run
