"""`creek pipeline`: parameters in, evidence out, on Spark.

Spark and what comes with it are optional packages: they are imported when a command needs them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from creek.cli.exits import FINE, ILLEGAL
from creek.cli.output import complaints, show
from creek.cli.words import counted
from creek.errors import UsageError

if TYPE_CHECKING:
    from creek.pipeline.simulate import Progress

TELL_EVERY_S: Final = 10.0
"""How often, where nobody watches a bar, a line tells how far it is."""

with_master: Final[Callable[[Any], Any]] = click.option(
    "--master",
    default="local[*]",
    show_default=True,
    metavar="URL",
    help="Where Spark runs: this machine, or a cluster such as spark://host:7077.",
)


@click.group(short_help="Experiments at scale, on Spark.")
def pipeline() -> None:
    """Turn parameters into evidence, on Spark: experiments, simulated, measured and checked.

    It runs on this machine, or unchanged on a cluster (--master). Needs creek[pipeline].

    \b
    Examples:
      creek pipeline simulate --grid quick --out runs/quick
      creek pipeline measure runs/quick
      creek pipeline verify runs/quick
    """


@pipeline.command(short_help="Simulate a grid of experiments.")
@click.option(
    "--grid",
    "grid_name",
    required=True,
    metavar="FILE|paper|quick",
    help="Which experiments: those of the paper, a few of them, or a TOML or JSON file.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Where the runs go. A folder that has some of them already gets the missing ones.",
)
@with_master
@click.option("--force", is_flag=True, help="Replace what another grid left in the folder.")
def simulate(grid_name: str, out: Path, master: str, force: bool) -> int:
    """Simulate every experiment of a grid, each as a task of Spark.

    A grid is a list of blocks; a block gives fields of an experiment one value or several, and its
    cells are all combinations. Each cell leaves a run folder in OUT/runs. After an interruption,
    the same command goes on where it was. Exits with 1 when a cell failed.

    \b
    Examples:
      creek pipeline simulate --grid quick --out runs/quick
      creek pipeline simulate --grid mine.toml --out runs/mine --master spark://host:7077

    \b
    A grid of one's own, mine.toml:
      [[block]]
      scheme = ["creek", "archie"]
      load_tps = [1000, 10000, 30000]
      seed = [0, 1, 2]
      transactions = 4000          # or duration = "400ms"
    \b
    Other keys: warehouses, strong_share, exec_scale, replicas, cores, layout, warm_up, local_reads,
    and faults ("partition 0,1 at 1s; heal at 2s").
    """
    with needed_packages():
        from creek.pipeline.grid import load_grid  # noqa: PLC0415
        from creek.pipeline.output import prepare  # noqa: PLC0415
        from creek.pipeline.simulate import simulate as simulate_cells  # noqa: PLC0415
        from creek.pipeline.spark import session  # noqa: PLC0415
    grid = load_grid(grid_name)
    prepare(out, grid, force)
    with session(master, f"creek: {grid_name}") as spark, watching() as watch:
        failures = simulate_cells(spark, grid.cells, out, watch)
    done = len(grid.cells) - len(failures)
    show([Text(f"{done} of {counted(len(grid.cells), 'cell')} simulated, in {out}")])
    for failure in failures:
        show([Text(f"{failure.cell.name} failed: {failure.reason}", style="red")])
        show([Text(f"  replay it with: {failure.command}")])
    return ILLEGAL if failures else FINE


@contextmanager
def needed_packages() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        missing = error.name or str(error)
        raise UsageError(
            f"the pipeline needs {missing}, which is not installed: pip install 'creek[pipeline]'"
        ) from error


@contextmanager
def watching() -> Iterator[Callable[["Progress"], None]]:
    """A bar where somebody watches it, and otherwise a line from time to time."""
    console = complaints()
    if not console.is_terminal:
        yield _Lines()
        return
    bar = Bar(
        TextColumn("simulating"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
    )
    task = bar.add_task("", total=None)

    def watch(progress: "Progress") -> None:
        running = ", ".join(progress.running)
        about = f"{_left(progress)}  {running}" if running else _left(progress)
        bar.update(task, completed=progress.done, total=progress.total, description=about)

    with bar:
        yield watch


class _Lines:
    def __init__(self) -> None:
        self._told_s = monotonic()

    def __call__(self, progress: "Progress") -> None:
        if monotonic() - self._told_s >= TELL_EVERY_S and progress.done < progress.total:
            self._told_s = monotonic()
            cells = counted(progress.total, "cell")
            click.echo(f"{progress.done} of {cells} simulated{_left(progress)}", err=True)


def _left(progress: "Progress") -> str:
    if progress.left_s is None:
        return ""
    minutes, seconds = divmod(round(progress.left_s), 60)
    return f", about {minutes}:{seconds:02d} left"
