"""Running a simulation while somebody watches."""

import time

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from creekdb.cli.output import complaints
from creekdb.execution.python_runtime import seldom_collecting
from creekdb.simulation.kernel.cluster import Run, Simulation

PATIENCE_BEFORE_BAR_S = 1.0
BAR_STEPS = 200


def run_watched(simulation: Simulation, what: str = "simulating") -> Run:
    """Run it, with a progress bar if it takes a while and somebody watches."""
    with seldom_collecting():
        return _run_watched(simulation, what)


def _run_watched(simulation: Simulation, what: str) -> Run:
    console, duration_us = complaints(), simulation.scenario.duration_us
    if not console.is_terminal or not duration_us:
        return simulation.run()
    bar = Progress(
        TextColumn(what),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} ms"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task(what, total=duration_us / 1000)
    begun = time.monotonic()

    def moved(now_us: int) -> None:
        if time.monotonic() - begun > PATIENCE_BEFORE_BAR_S:
            bar.start()
        bar.update(task, completed=now_us / 1000)

    # Events that touch nothing: they change neither the run nor its trace.
    for step in range(1, BAR_STEPS):
        at_us = duration_us * step // BAR_STEPS
        simulation.heap.at(at_us, moved, at_us)
    try:
        return simulation.run()
    finally:
        bar.stop()
