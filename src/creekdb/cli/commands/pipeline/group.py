"""`creek pipeline`: parameters in, evidence out, on Spark.

Spark and what comes with it are optional packages: they are imported when a command needs them.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from rich.console import RenderableType
from rich.control import Control
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.segment import ControlType
from rich.status import Status
from rich.text import Text

from creekdb.cli.exit_codes import FINE, ILLEGAL
from creekdb.cli.lazy_group import LazyGroup
from creekdb.cli.options import import_from_here
from creekdb.cli.output import complaints, counted, show
from creekdb.errors import UsageError
from creekdb.evaluation.measures import tpcc_of
from creekdb.execution.datatype import DataType
from creekdb.simulation.kernel.scenario import Scenario
from creekdb.tpcc import on_population

if TYPE_CHECKING:
    from creekdb.pipeline.spark.session import SparkSession
    from creekdb.pipeline.stages.simulate import Failure, Progress

TELL_EVERY_S: Final = 10.0
"""How often, where nobody watches a bar, a line tells how far it is."""
LOOK_EVERY_S: Final = 0.5

Made = TypeVar("Made")

with_master: Final[Callable[[Any], Any]] = click.option(
    "--master",
    default="local[*]",
    show_default=True,
    metavar="URL",
    help="Where Spark runs: this machine, or a cluster such as spark://host:7077.",
)


STAGES: Final = {
    "measure": "pipeline.stages",
    "verify": "pipeline.stages",
    "report": "pipeline.stages",
    "run": "pipeline.stages",
}


@click.group(
    cls=LazyGroup,
    lazily=STAGES,
    sections={"Commands": ("run", "simulate", "measure", "verify", "report", "generate")},
    short_help="Experiments at scale, on Spark.",
)
def pipeline() -> None:
    """Turn parameters into evidence, on Spark: experiments, simulated, measured and checked.

    It runs on this machine, or unchanged on a cluster (--master). Needs creekdb[pipeline].

    \b
    Examples:
      creek pipeline run                       all of this, for a few experiments
      creek pipeline simulate --grid quick --out runs/quick
      creek pipeline measure runs/quick
      creek pipeline verify runs/quick
      creek pipeline report runs/quick --open
      creek pipeline generate --warehouses 5 --out runs/population
    """
    import_from_here()


@pipeline.command(short_help="Write TPC-C's initial data as Parquet.")
@click.option("--warehouses", type=int, required=True, help="The scale: about 20 MB for each.")
@click.option("--seed", default=0, show_default=True, help="All chance in the rows comes from it.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Where the files go.")
@with_master
@click.option("--force", is_flag=True, help="Replace another population in the folder.")
def generate(warehouses: int, seed: int, out: Path, master: str, force: bool) -> int:
    """Write TPC-C's nine tables as Parquet, and check them with Spark.

    The files depend on the seed and the number of warehouses alone. What the specification says of
    the initial data is asked of what was written; exits with 1 when something does not hold.

    \b
    Example:
      creek pipeline generate --warehouses 5 --out runs/population
      creek simulate --workload tpcc --scheme creek --population runs/population
    """
    with needed_packages():
        from creekdb.pipeline.stages import population as generating  # noqa: PLC0415
        from creekdb.pipeline.stages import population_checks  # noqa: PLC0415
    generating.prepare(out, warehouses, seed, force)
    with on_spark(master, "creek: generate") as spark:
        rows = waiting("writing", lambda: generating.generate(spark, out, warehouses, seed), spark)
        wrong = waiting(
            "checking",
            lambda: population_checks.problems(
                population_checks.read_tables(spark, out), warehouses
            ),
            spark,
        )
    show([Text(f"{rows} rows of {counted(warehouses, 'warehouse')}, seed {seed}, in {out}")])
    if not wrong:
        show([Text("as many rows and keys as TPC-C asks for, and its tables agree")])
    show(Text(each, style="red") for each in wrong)
    return ILLEGAL if wrong else FINE


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

    A grid is a list of blocks; a block gives fields of an experiment one value or several, and
    stands for all combinations. Each experiment leaves a run folder in OUT/runs. After an
    interruption, the same command goes on where it was. Exits with 1 when an experiment failed.

    \b
    Examples:
      creek pipeline simulate --grid quick --out runs/quick
      creek pipeline simulate --grid mine.toml --out runs/mine \\
                              --master spark://host:7077

    \b
    A grid of one's own, mine.toml:
      [[block]]
      scheme = ["creek", "archie"]
      load_tps = [1000, 10000, 30000]
      seed = [0, 1, 2]
      transactions = 4000          # or duration = "400ms"

    Other keys: warehouses, strong_share, exec_scale, replicas, cores, layout, warm_up, local_reads,
    recorded, and faults ("partition 0,1 at 1s; heal at 2s").
    """
    with needed_packages():
        from creekdb.pipeline.stages.grid import load_grid  # noqa: PLC0415
        from creekdb.pipeline.stages.output_dir import prepare  # noqa: PLC0415
        from creekdb.pipeline.stages.simulate import simulate as simulate_cells  # noqa: PLC0415
    grid = load_grid(grid_name)
    prepare(out, grid, force)
    with going_on_later(out), on_spark(master, f"creek: {grid_name}") as spark, watching() as watch:
        failures = simulate_cells(spark, grid.cells, out, watch, complain)
    tell_simulated(len(grid.cells), failures, out)
    return ILLEGAL if failures else FINE


@contextmanager
def going_on_later(out: Path) -> Iterator[None]:
    """Tells who interrupts it that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"what is done stays in {out}: the same command goes on from there", err=True)
        raise


def tell_simulated(cells: int, failures: Sequence["Failure"], out: Path) -> None:
    show([Text(f"{cells - len(failures)} of {counted(cells, 'experiment')} simulated, in {out}")])
    for failure in failures:
        show([Text(f"{failure.cell.name} failed: {failure.reason}", style="red")])
        show([Text(f"  replay it with: {failure.command}")])


def loaded(folder: Path, scenario: Scenario) -> DataType:
    """The scenario's data type, on initial data from a folder."""
    with needed_packages():
        from creekdb.pipeline.stages.population import LoadedPopulation  # noqa: PLC0415
    layout, warehouses = tpcc_of(scenario.datatype)
    population = LoadedPopulation(folder)
    if layout is None or (population.warehouses, population.seed) != (warehouses, scenario.seed):
        raise UsageError(
            f"{folder} holds {counted(population.warehouses, 'warehouse')} of seed "
            f"{population.seed}: add --warehouses {population.warehouses} --seed {population.seed}"
        )
    return on_population(population, layout)


def complain(line: str) -> None:
    click.echo(f"creek: {line}", err=True)


@contextmanager
def needed_packages() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        missing = error.name or str(error)
        raise UsageError(
            f"the pipeline needs {missing}, which is not installed: pip install 'creekdb[pipeline]'"
        ) from error


@contextmanager
def on_spark(master: str, name: str) -> Iterator["SparkSession"]:
    """A session; until it is there, which takes a while, one is told what is waited for: in a line
    that stands still, since what comes to stderr meanwhile is taken for Spark's."""
    from creekdb.pipeline.spark.session import session  # noqa: PLC0415

    console = complaints()
    with ExitStack() as held:
        if console.is_terminal:
            console.print("starting Spark ...", end="")
        try:
            spark = held.enter_context(session(master, name))
        finally:
            console.control(Control((ControlType.ERASE_IN_LINE, 2), ControlType.CARRIAGE_RETURN))
        yield spark


def waiting(
    what: str,
    work: Callable[[], Made],
    spark: "SparkSession | None" = None,
    aloud: bool = False,
) -> Made:
    """For what takes its time, which is told meanwhile; `aloud`: also where nobody watches."""
    console = complaints()
    if not console.is_terminal:
        if aloud:
            click.echo(f"{what} ...", err=True)
        return work()
    with console.status(what) as status:
        if spark is None:
            return work()
        done = threading.Event()
        watcher = threading.Thread(target=_watch, args=(what, spark, status, done), daemon=True)
        watcher.start()
        try:
            return work()
        finally:
            done.set()
            watcher.join()


def _watch(what: str, spark: "SparkSession", status: Status, done: threading.Event) -> None:
    from creekdb.pipeline.spark.session import tasks  # noqa: PLC0415

    while not done.wait(LOOK_EVERY_S):
        finished, total = tasks(spark)
        if total > 1:
            status.update(f"{what}: {finished} of {counted(total, 'task')}")


@contextmanager
def watching() -> Iterator[Callable[["Progress"], None]]:
    """A bar where somebody watches it, and otherwise a line from time to time."""
    console = complaints()
    if not console.is_terminal:
        yield _Lines()
        return
    bar = _Cells(
        TextColumn("simulating"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
    )
    task = bar.add_task("", total=None)

    def watch(progress: "Progress") -> None:
        bar.running = progress.running
        bar.update(task, completed=progress.done, total=progress.total, description=_left(progress))

    with bar:
        yield watch


class _Cells(Bar):
    """With a line for the experiments that run: their names are long."""

    running: Sequence[str] = ()

    def get_renderables(self) -> Iterator[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        names = ", ".join(self.running)
        yield Text(names, style="dim", no_wrap=True, overflow="ellipsis")


class _Lines:
    def __init__(self) -> None:
        self._told_s = monotonic()

    def __call__(self, progress: "Progress") -> None:
        if monotonic() - self._told_s >= TELL_EVERY_S and progress.done < progress.total:
            self._told_s = monotonic()
            cells = counted(progress.total, "experiment")
            left = f", {_left(progress)}" if _left(progress) else ""
            click.echo(f"{progress.done} of {cells} simulated{left}", err=True)


def _left(progress: "Progress") -> str:
    if progress.left_s is None:
        return ""
    minutes, seconds = divmod(round(progress.left_s), 60)
    return f"about {minutes}:{seconds:02d} left"
