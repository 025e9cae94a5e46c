"""`creek pipeline`: experiments at scale, on Spark.

Spark and its dependencies are optional packages, imported when a command needs them.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

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
from creekdb.cli.submit import SCRIPT
from creekdb.errors import UsageError
from creekdb.evaluation.measures import parse_tpcc_name
from creekdb.execution.datatype import DataType
from creekdb.simulation.kernel.scenario import Scenario
from creekdb.tpcc import datatype_on_population

if TYPE_CHECKING:
    from creekdb.pipeline.spark.configuration import SparkOptions
    from creekdb.pipeline.spark.session import SparkSession
    from creekdb.pipeline.stages.simulate import GridProgress, RunFailure
    from creekdb.pipeline.storage import Location

POLL_INTERVAL_S: Final = 0.5
SMALL_POPULATION: Final = 20
"""Upper bound for the warehouses of a population that takes Spark some seconds."""

WorkResult = TypeVar("WorkResult")


class SparkArguments(NamedTuple):
    """Options of every command that runs on Spark."""

    master: str | None = option(
        "Spark master, such as spark://host:7077.  "
        "[default: that of spark-submit or spark-defaults.conf, or else local[*]]",
        metavar="URL",
    )
    remote: str | None = option(
        "Spark Connect server, such as sc://host:15002, in place of a master.  "
        "[default: SPARK_REMOTE]",
        metavar="URL",
    )
    conf: tuple[str, ...] = option(
        "Setting of Spark, before those of spark-submit and its files. May be repeated.",
        metavar="KEY=VALUE",
    )
    py_files: tuple[str, ...] = option(
        "Python files and archives for the executors, separated by commas.", metavar="FILES"
    )
    archives: tuple[str, ...] = option(
        "Archives that executors unpack, separated by commas. 'creek pipeline pack' writes one "
        "with all packages.",
        metavar="FILE#NAME",
    )
    driver_memory: str | None = option("Heap of the driver, such as 2g.", metavar="SIZE")
    verbose: bool = option(
        "Print the settings of Spark that Creek adds, one per line.", flag="-v --verbose"
    )


FORCE: Final = option("Replace the output of another grid.")
GRID_SETTINGS: Final[dict[str, str]] = {
    "help": "Experiments: those of the paper, a selection of them, those on Creek's extensions "
    "beyond the paper, or a TOML or JSON file.",
    "flag": "--grid",
    "metavar": "FILE|paper|quick|beyond",
}


STAGE_MODULES: Final = {
    "check": "pipeline.check",
    "measure": "pipeline.stages",
    "verify": "pipeline.stages",
    "report": "pipeline.stages",
    "run": "pipeline.stages",
    "watch": "pipeline.watch",
    "audit": "pipeline.audit",
}


@click.group(
    cls=LazyGroup,
    modules=STAGE_MODULES,
    sections={
        "Commands": ("run", "simulate", "measure", "verify", "report", "check", "generate", "pack"),
        "Live clusters": ("watch", "audit"),
    },
    short_help="Run experiments at scale, on Spark.",
)
def pipeline() -> None:
    """Simulate, measure and check experiments at scale, on Spark.

    Spark runs on this machine, or on a cluster (--master). Requires creekdb[spark].

    \b
    Examples:
      creek pipeline run                       all stages, for a few experiments
      creek pipeline simulate --grid quick --out runs/quick
      creek pipeline measure runs/quick
      creek pipeline verify runs/quick
      creek pipeline report runs/quick --open
      creek pipeline check calls.jsonl --model kv
      creek pipeline watch --open              a cluster of 'creek up'
      creek pipeline audit --datatype kv       the same, checked as it commits
      creek pipeline generate --warehouses 5 --out runs/population
      creek pipeline pack --out environment.tar.gz
    """
    add_working_directory_to_path()


@pipeline.command(short_help="Write TPC-C's initial data as Parquet.")
@declared
def generate(
    *,
    warehouses: int = option("Number of warehouses; each takes about 13 MB.", required=True),
    seed: int = option("Seed of the random rows.", 0),
    out: str = option("Output directory, or a URI.", required=True),
    spark_arguments: SparkArguments,
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
        from creekdb.pipeline.storage import Location  # noqa: PLC0415
    directory = Location.parse(out)
    population.prepare_population_dir(directory, warehouses, seed, force)
    with spark_session(spark_arguments, "creek: generate", warehouses <= SMALL_POPULATION) as spark:
        rows = run_with_status(
            "writing", lambda: population.generate(spark, directory, warehouses, seed), spark
        )
        problems = run_with_status(
            "checking", lambda: population_checks.find_violations(spark, directory), spark
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
    out: str = option(
        "Output directory, or a URI. Runs that it already contains are not simulated again.",
        required=True,
    ),
    spark_arguments: SparkArguments,
    force: bool = FORCE,
) -> int:
    """Simulate every experiment of a grid, as Spark tasks.

    A grid is a list of blocks. A block assigns one or several values to fields of an experiment and
    stands for all combinations. The runs become rows of the tables in OUT. Histories of recorded
    runs are in OUT/histories. After an interruption, the same command continues. Exits with 1 if an
    experiment failed.

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
    decided_only, regions, clock_skew, recorded, and faults ("partition 0,1 at 1s; heal at 2s"). The
    key extensions is "none", "all", "each", "stepwise", or names separated by commas.
    """
    with require_packages():
        from creekdb.pipeline.stages.grid import load_grid  # noqa: PLC0415
        from creekdb.pipeline.stages.output_dir import prepare_output_dir  # noqa: PLC0415
        from creekdb.pipeline.stages.simulate import simulate as simulate_cells  # noqa: PLC0415
        from creekdb.pipeline.storage import Location  # noqa: PLC0415
    grid = load_grid(grid_name)
    directory = Location.parse(out)
    prepare_output_dir(directory, grid, force)
    with (
        resume_hint(directory),
        spark_session(spark_arguments, f"creek: {grid_name}") as spark,
        simulation_progress() as on_progress,
    ):
        failures = simulate_cells(spark, grid.cells, directory, on_progress, print_error)
    print_simulated(len(grid.cells), failures, directory)
    return FAILURE if failures else SUCCESS


@pipeline.command(short_help="Pack the packages that executors need.")
@declared
def pack(
    *,
    out: Path = option("Archive to write, a file ending in .tar.gz.", required=True),
    additional: tuple[str, ...] = option(
        "Further package that your data types need. May be repeated.",
        flag="--with",
        metavar="PACKAGE",
    ),
) -> int:
    """Write an archive of the packages that Spark's executors need.

    Executors need Python of the same version as this machine, and the same platform. They need no
    other package: the archive contains those of this environment, and Creek sends its own code.

    \b
    Example:
      creek pipeline pack --out environment.tar.gz
      creek pipeline run --master spark://host:7077 \\
                         --archives environment.tar.gz#environment
    """
    with require_packages():
        from creekdb.pipeline.spark.configuration import ENVIRONMENT_NAME  # noqa: PLC0415
        from creekdb.pipeline.spark.executors import pack_environment  # noqa: PLC0415
    packed = pack_environment(out, additional)
    packages = ", ".join(packed.packages)
    click.echo(f"{packed.path}: {packages}, for Python {packed.python} ({packed.size:,} bytes)")
    archives = f"--archives {packed.path}#{ENVIRONMENT_NAME}"
    click.echo(f"  creek pipeline run --master spark://HOST:7077 {archives}")
    click.echo(f"  spark-submit --master spark://HOST:7077 {archives} {SCRIPT} pipeline run")
    return SUCCESS


@contextmanager
def resume_hint(out: "Location") -> Iterator[None]:
    """Print on an interruption that completed runs are saved."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"completed runs are in {out}: run the same command to continue", err=True)
        raise


def print_simulated(cells: int, failures: Sequence["RunFailure"], out: "Location") -> None:
    click.echo(f"{cells - len(failures)} of {pluralize(cells, 'experiment')} simulated, in {out}")
    for failure in failures:
        print_lines([Text(f"{failure.source.name} failed: {failure.reason}", style="red")])
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
            f"the pipeline requires {missing}: pip install 'creekdb[spark]'"
        ) from error


def spark_options(arguments: SparkArguments, small_job: bool = True) -> "SparkOptions":
    """Return the options of a session. `small_job`: Java compiles less, for jobs of seconds."""
    from creekdb.pipeline.spark.configuration import SparkOptions, parse_conf  # noqa: PLC0415

    return SparkOptions(
        master=arguments.master,
        remote=arguments.remote,
        conf=parse_conf(arguments.conf),
        py_files=_split_lists(arguments.py_files),
        archives=_split_lists(arguments.archives),
        driver_memory=arguments.driver_memory,
        small_job=small_job,
    )


def _split_lists(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(each for value in values for each in value.split(",") if each)


@contextmanager
def spark_session(
    arguments: SparkArguments, name: str, small_job: bool = True
) -> Iterator["SparkSession"]:
    """Open a Spark session, with a notice while it starts.

    A failure of Spark that has a known cause is raised as an error of one line.
    """
    with starting_spark(arguments, name, small_job) as wait_for_spark:
        yield wait_for_spark()


@contextmanager
def starting_spark(
    arguments: SparkArguments, name: str, small_job: bool = True
) -> Iterator[Callable[[], "SparkSession"]]:
    """Start Spark in the background; yield a function that waits for it, with a notice."""
    from creekdb.pipeline.spark.failures import explained_failures  # noqa: PLC0415
    from creekdb.pipeline.spark.session import starting_session  # noqa: PLC0415

    options = spark_options(arguments, small_job)
    console = stderr_console()

    def report(line: str) -> None:
        if arguments.verbose:
            click.echo(line, err=True)

    with explained_failures(), starting_session(options, name, None, report) as wait_for_session:

        def wait_for_spark() -> "SparkSession":
            if can_redraw(console):
                console.print("starting Spark ...", end="")
            try:
                return wait_for_session()
            finally:
                erase = Control((ControlType.ERASE_IN_LINE, 2), ControlType.CARRIAGE_RETURN)
                console.control(erase)

        yield wait_for_spark


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
    if not can_redraw(console):
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


def can_redraw(console: Console) -> bool:
    """True if the console can erase lines. Rich draws no progress bar on a dumb terminal."""
    return console.is_terminal and not console.is_dumb_terminal


@contextmanager
def simulation_progress(
    console: Console | None = None, report_interval_s: float = 10.0
) -> Iterator[Callable[["GridProgress"], None]]:
    """Show a progress bar on a terminal, and elsewhere a line per `report_interval_s` seconds."""
    console = console or stderr_console()
    if not can_redraw(console):
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
