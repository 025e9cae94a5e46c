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

from creekdb.cli.exit_codes import FAILURE, SUCCESS
from creekdb.cli.lazy_group import LazyGroup
from creekdb.cli.options import add_working_directory_to_path
from creekdb.cli.output import pluralize, print_lines, stderr_console
from creekdb.errors import UsageError
from creekdb.evaluation.measures import parse_tpcc_name
from creekdb.execution.datatype import DataType
from creekdb.simulation.kernel.scenario import Scenario
from creekdb.tpcc import datatype_on_population

if TYPE_CHECKING:
    from creekdb.pipeline.spark.session import SparkSession
    from creekdb.pipeline.stages.simulate import CellFailure, GridProgress

REPORT_INTERVAL_S: Final = 10.0
"""How often, where nobody watches a bar, a line tells how far it is."""
POLL_INTERVAL_S: Final = 0.5

WorkResult = TypeVar("WorkResult")

master_option: Final[Callable[[Any], Any]] = click.option(
    "--master",
    default="local[*]",
    show_default=True,
    metavar="URL",
    help="Where Spark runs: this machine, or a cluster such as spark://host:7077.",
)


STAGE_MODULES: Final = {
    "measure": "pipeline.stages",
    "verify": "pipeline.stages",
    "report": "pipeline.stages",
    "run": "pipeline.stages",
}


@click.group(
    cls=LazyGroup,
    lazily=STAGE_MODULES,
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
    add_working_directory_to_path()


@pipeline.command(short_help="Write TPC-C's initial data as Parquet.")
@click.option("--warehouses", type=int, required=True, help="The scale: about 20 MB for each.")
@click.option("--seed", default=0, show_default=True, help="All chance in the rows comes from it.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Where the files go.")
@master_option
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
    with require_packages():
        from creekdb.pipeline.stages import population as generating  # noqa: PLC0415
        from creekdb.pipeline.stages import population_checks  # noqa: PLC0415
    generating.prepare_population_dir(out, warehouses, seed, force)
    with spark_session(master, "creek: generate") as spark:
        rows = run_with_status(
            "writing", lambda: generating.generate(spark, out, warehouses, seed), spark
        )
        wrong = run_with_status(
            "checking",
            lambda: population_checks.find_problems(
                population_checks.read_population_tables(spark, out), warehouses
            ),
            spark,
        )
    print_lines(
        [Text(f"{rows} rows of {pluralize(warehouses, 'warehouse')}, seed {seed}, in {out}")]
    )
    if not wrong:
        print_lines([Text("as many rows and keys as TPC-C asks for, and its tables agree")])
    print_lines(Text(each, style="red") for each in wrong)
    return FAILURE if wrong else SUCCESS


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
@master_option
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
    with require_packages():
        from creekdb.pipeline.stages.grid import load_grid  # noqa: PLC0415
        from creekdb.pipeline.stages.output_dir import prepare_output_dir  # noqa: PLC0415
        from creekdb.pipeline.stages.simulate import simulate as simulate_cells  # noqa: PLC0415
    grid = load_grid(grid_name)
    prepare_output_dir(out, grid, force)
    with (
        resume_hint(out),
        spark_session(master, f"creek: {grid_name}") as spark,
        simulation_progress() as watch,
    ):
        failures = simulate_cells(spark, grid.cells, out, watch, print_error)
    print_simulated(len(grid.cells), failures, out)
    return FAILURE if failures else SUCCESS


@contextmanager
def resume_hint(out: Path) -> Iterator[None]:
    """Tells who interrupts it that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"what is done stays in {out}: the same command goes on from there", err=True)
        raise


def print_simulated(cells: int, failures: Sequence["CellFailure"], out: Path) -> None:
    print_lines(
        [Text(f"{cells - len(failures)} of {pluralize(cells, 'experiment')} simulated, in {out}")]
    )
    for failure in failures:
        print_lines([Text(f"{failure.cell.name} failed: {failure.reason}", style="red")])
        print_lines([Text(f"  replay it with: {failure.command}")])


def populated_datatype(folder: Path, scenario: Scenario) -> DataType:
    """The scenario's data type, on initial data from a folder."""
    with require_packages():
        from creekdb.pipeline.stages.population import LoadedPopulation  # noqa: PLC0415
    layout, warehouses = parse_tpcc_name(scenario.datatype)
    population = LoadedPopulation(folder)
    if layout is None or (population.warehouses, population.seed) != (warehouses, scenario.seed):
        raise UsageError(
            f"{folder} holds {pluralize(population.warehouses, 'warehouse')} of seed "
            f"{population.seed}: add --warehouses {population.warehouses} --seed {population.seed}"
        )
    return datatype_on_population(population, layout)


def print_error(line: str) -> None:
    click.echo(f"creek: {line}", err=True)


@contextmanager
def require_packages() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        missing = error.name or str(error)
        raise UsageError(
            f"the pipeline needs {missing}, which is not installed: pip install 'creekdb[pipeline]'"
        ) from error


@contextmanager
def spark_session(master: str, name: str) -> Iterator["SparkSession"]:
    """A session; until it is there, which takes a while, one is told what is waited for: in a line
    that stands still, since what comes to stderr meanwhile is taken for Spark's."""
    from creekdb.pipeline.spark.session import spark_session  # noqa: PLC0415

    console = stderr_console()
    with ExitStack() as held:
        if console.is_terminal:
            console.print("starting Spark ...", end="")
        try:
            spark = held.enter_context(spark_session(master, name))
        finally:
            console.control(Control((ControlType.ERASE_IN_LINE, 2), ControlType.CARRIAGE_RETURN))
        yield spark


def run_with_status(
    what: str,
    work: Callable[[], WorkResult],
    spark: "SparkSession | None" = None,
    aloud: bool = False,
) -> WorkResult:
    """For what takes its time, which is told meanwhile; `aloud`: also where nobody watches."""
    console = stderr_console()
    if not console.is_terminal:
        if aloud:
            click.echo(f"{what} ...", err=True)
        return work()
    with console.status(what) as status:
        if spark is None:
            return work()
        done = threading.Event()
        watcher = threading.Thread(
            target=_update_status, args=(what, spark, status, done), daemon=True
        )
        watcher.start()
        try:
            return work()
        finally:
            done.set()
            watcher.join()


def _update_status(what: str, spark: "SparkSession", status: Status, done: threading.Event) -> None:
    from creekdb.pipeline.spark.session import task_counts  # noqa: PLC0415

    while not done.wait(POLL_INTERVAL_S):
        finished, total = task_counts(spark)
        if total > 1:
            status.update(f"{what}: {finished} of {pluralize(total, 'task')}")


@contextmanager
def simulation_progress() -> Iterator[Callable[["GridProgress"], None]]:
    """A bar where somebody watches it, and otherwise a line from time to time."""
    console = stderr_console()
    if not console.is_terminal:
        yield _ProgressLines()
        return
    bar = _CellProgress(
        TextColumn("simulating"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
    )
    task = bar.add_task("", total=None)

    def watch(progress: "GridProgress") -> None:
        bar.running = progress.running
        bar.update(
            task,
            completed=progress.done,
            total=progress.total,
            description=_remaining_text(progress),
        )

    with bar:
        yield watch


class _CellProgress(Bar):
    """With a line for the experiments that run: their names are long."""

    running: Sequence[str] = ()

    def get_renderables(self) -> Iterator[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        names = ", ".join(self.running)
        yield Text(names, style="dim", no_wrap=True, overflow="ellipsis")


class _ProgressLines:
    def __init__(self) -> None:
        self._reported_s = monotonic()

    def __call__(self, progress: "GridProgress") -> None:
        if monotonic() - self._reported_s >= REPORT_INTERVAL_S and progress.done < progress.total:
            self._reported_s = monotonic()
            cells = pluralize(progress.total, "experiment")
            left = f", {_remaining_text(progress)}" if _remaining_text(progress) else ""
            click.echo(f"{progress.done} of {cells} simulated{left}", err=True)


def _remaining_text(progress: "GridProgress") -> str:
    if progress.remaining_s is None:
        return ""
    minutes, seconds = divmod(round(progress.remaining_s), 60)
    return f"about {minutes}:{seconds:02d} left"
