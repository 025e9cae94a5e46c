"""`creek pipeline`: experiments at scale, on Spark.

Spark and its dependencies are optional packages, imported when a command needs them.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

import click
from rich.console import Console, RenderableType
from rich.control import Control
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.segment import ControlType
from rich.status import Status
from rich.text import Text

from creekdb.cli.declaration import declared, option
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

POLL_INTERVAL_S: Final = 0.5

WorkResult = TypeVar("WorkResult")

MASTER: Final = option(
    "Spark master: this machine, or a cluster such as spark://host:7077.", "local[*]", metavar="URL"
)
FORCE: Final = option("Replace the output of another grid.")
GRID_SETTINGS: Final[dict[str, str]] = {
    "help": "Experiments: those of the paper, a selection of them, or a TOML or JSON file.",
    "flag": "--grid",
    "metavar": "FILE|paper|quick",
}


STAGE_MODULES: Final = {
    "measure": "pipeline.stages",
    "verify": "pipeline.stages",
    "report": "pipeline.stages",
    "run": "pipeline.stages",
}


@click.group(
    cls=LazyGroup,
    modules=STAGE_MODULES,
    sections={"Commands": ("run", "simulate", "measure", "verify", "report", "generate")},
    short_help="Run experiments at scale, on Spark.",
)
def pipeline() -> None:
    """Simulate, measure and check experiments at scale, on Spark.

    Spark runs on this machine, or on a cluster (--master). Requires creekdb[pipeline].

    \b
    Examples:
      creek pipeline run                       all stages, for a few experiments
      creek pipeline simulate --grid quick --out runs/quick
      creek pipeline measure runs/quick
      creek pipeline verify runs/quick
      creek pipeline report runs/quick --open
      creek pipeline generate --warehouses 5 --out runs/population
    """
    add_working_directory_to_path()


@pipeline.command(short_help="Write TPC-C's initial data as Parquet.")
@declared
def generate(
    *,
    warehouses: int = option("Number of warehouses; each takes about 20 MB.", required=True),
    seed: int = option("Seed of the random rows.", 0),
    out: Path = option("Output directory.", required=True),
    master: str = MASTER,
    force: bool = option("Replace another population in the directory."),
) -> int:
    """Write TPC-C's nine tables as Parquet, and check them with Spark.

    The files depend only on the seed and the number of warehouses. Exits with 1 if the written
    data violates a rule of the specification.

    \b
    Example:
      creek pipeline generate --warehouses 5 --out runs/population
      creek simulate --workload tpcc --scheme creek --population runs/population
    """
    with require_packages():
        from creekdb.pipeline.stages import population, population_checks  # noqa: PLC0415
    population.prepare_population_dir(out, warehouses, seed, force)
    with spark_session(master, "creek: generate") as spark:
        rows = run_with_status(
            "writing", lambda: population.generate(spark, out, warehouses, seed), spark
        )
        problems = run_with_status(
            "checking",
            lambda: population_checks.find_problems(
                population_checks.read_population_tables(spark, out), warehouses
            ),
            spark,
        )
    click.echo(f"{rows} rows of {pluralize(warehouses, 'warehouse')}, seed {seed}, in {out}")
    if not problems:
        click.echo("the rows, keys and references meet the TPC-C specification")
    print_lines(Text(each, style="red") for each in problems)
    return FAILURE if problems else SUCCESS


@pipeline.command(short_help="Simulate a grid of experiments.")
@declared
def simulate(
    *,
    grid_name: str = option(required=True, **GRID_SETTINGS),
    out: Path = option(
        "Output directory. Runs that it already contains are not simulated again.", required=True
    ),
    master: str = MASTER,
    force: bool = FORCE,
) -> int:
    """Simulate every experiment of a grid, each as a Spark task.

    A grid is a list of blocks. A block assigns one or several values to fields of an experiment and
    stands for all combinations. Each experiment writes a run directory to OUT/runs. After an
    interruption, the same command continues. Exits with 1 if an experiment failed.

    \b
    Examples:
      creek pipeline simulate --grid quick --out runs/quick
      creek pipeline simulate --grid mine.toml --out runs/mine \\
                              --master spark://host:7077

    \b
    A custom grid, mine.toml:
      [[block]]
      scheme = ["creek", "smr"]
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
        simulation_progress() as on_progress,
    ):
        failures = simulate_cells(spark, grid.cells, out, on_progress, print_error)
    print_simulated(len(grid.cells), failures, out)
    return FAILURE if failures else SUCCESS


@contextmanager
def resume_hint(out: Path) -> Iterator[None]:
    """Print on an interruption that completed runs are saved."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"completed runs are in {out}: run the same command to continue", err=True)
        raise


def print_simulated(cells: int, failures: Sequence["CellFailure"], out: Path) -> None:
    click.echo(f"{cells - len(failures)} of {pluralize(cells, 'experiment')} simulated, in {out}")
    for failure in failures:
        print_lines([Text(f"{failure.cell.name} failed: {failure.reason}", style="red")])
        click.echo(f"  replay it with: {failure.command}")


def populated_datatype(directory: Path, scenario: Scenario) -> DataType:
    """Return the scenario's data type, with initial data from a directory."""
    with require_packages():
        from creekdb.pipeline.stages.population import LoadedPopulation  # noqa: PLC0415
    layout, warehouses = parse_tpcc_name(scenario.datatype)
    population = LoadedPopulation(directory)
    if layout is None or (population.warehouses, population.seed) != (warehouses, scenario.seed):
        raise UsageError(
            f"{directory} contains {pluralize(population.warehouses, 'warehouse')} of seed "
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
            f"the pipeline requires {missing}: pip install 'creekdb[pipeline]'"
        ) from error


@contextmanager
def spark_session(master: str, name: str) -> Iterator["SparkSession"]:
    """Open a Spark session, with a notice while it starts.

    The notice is a static line, because other output on stderr is attributed to Spark meanwhile.
    """
    from creekdb.pipeline.spark.session import spark_session  # noqa: PLC0415

    console = stderr_console()
    with ExitStack() as stack:
        if _can_redraw(console):
            console.print("starting Spark ...", end="")
        try:
            spark = stack.enter_context(spark_session(master, name))
        finally:
            console.control(Control((ControlType.ERASE_IN_LINE, 2), ControlType.CARRIAGE_RETURN))
        yield spark


def run_with_status(
    activity: str,
    work: Callable[[], WorkResult],
    spark: "SparkSession | None" = None,
    always: bool = False,
) -> WorkResult:
    """Run the work with a status line.

    With `always`, print the line even if stderr is not a terminal.
    """
    console = stderr_console()
    if not _can_redraw(console):
        if always:
            click.echo(f"{activity} ...", err=True)
        return work()
    with console.status(activity) as status:
        if spark is None:
            return work()
        done = threading.Event()
        watcher = threading.Thread(
            target=_update_status, args=(activity, spark, status, done), daemon=True
        )
        watcher.start()
        try:
            return work()
        finally:
            done.set()
            watcher.join()


def _update_status(
    activity: str, spark: "SparkSession", status: Status, done: threading.Event
) -> None:
    from creekdb.pipeline.spark.session import task_counts  # noqa: PLC0415

    while not done.wait(POLL_INTERVAL_S):
        finished, total = task_counts(spark)
        if total > 1:
            status.update(f"{activity}: {finished} of {pluralize(total, 'task')}")


def _can_redraw(console: Console) -> bool:
    """True if the console can erase lines. Rich draws no progress bar on a dumb terminal."""
    return console.is_terminal and not console.is_dumb_terminal


@contextmanager
def simulation_progress(
    console: Console | None = None, report_interval_s: float = 10.0
) -> Iterator[Callable[["GridProgress"], None]]:
    """Show a progress bar on a terminal, and elsewhere a line per `report_interval_s` seconds."""
    console = console or stderr_console()
    if not _can_redraw(console):
        yield _ProgressLines(report_interval_s)
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

    def on_progress(progress: "GridProgress") -> None:
        bar.running = progress.running
        bar.update(
            task,
            completed=progress.done,
            total=progress.total,
            description=_remaining_text(progress),
        )

    with bar:
        yield on_progress


class _CellProgress(Bar):
    """Progress bar with a second line for the names of the running experiments."""

    running: Sequence[str] = ()

    def get_renderables(self) -> Iterator[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        names = ", ".join(self.running)
        yield Text(names, style="dim", no_wrap=True, overflow="ellipsis")


class _ProgressLines:
    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._reported_s = monotonic()

    def __call__(self, progress: "GridProgress") -> None:
        if monotonic() - self._reported_s >= self._interval_s and progress.done < progress.total:
            self._reported_s = monotonic()
            cells = pluralize(progress.total, "experiment")
            suffix = f", {_remaining_text(progress)}" if _remaining_text(progress) else ""
            click.echo(f"{progress.done} of {cells} simulated{suffix}", err=True)


def _remaining_text(progress: "GridProgress") -> str:
    if progress.remaining_s is None:
        return ""
    minutes, seconds = divmod(round(progress.remaining_s), 60)
    return f"about {minutes}:{seconds:02d} remaining"
