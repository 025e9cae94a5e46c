"""`creek pipeline measure`, `verify`, `report` and `run`: stages that evaluate simulated runs."""

import webbrowser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.table import Table
from rich.text import Text

from creekdb.cli.commands.pipeline.group import (
    FORCE,
    GRID_SETTINGS,
    SparkArguments,
    print_error,
    print_simulated,
    require_packages,
    resume_hint,
    run_with_status,
    simulation_progress,
    spark_session,
    starting_spark,
)
from creekdb.cli.declaration import argument, declared, option
from creekdb.cli.exit_codes import FAILURE, SUCCESS
from creekdb.cli.output import (
    command_name,
    new_table,
    pluralize,
    print_json,
    print_lines,
    print_table,
    stderr_console,
)
from creekdb.errors import CreekError, StorageFault, UsageError

if TYPE_CHECKING:
    from creekdb.pipeline.spark.frames import DataFrame
    from creekdb.pipeline.spark.session import SparkSession
    from creekdb.pipeline.stages.results import MeasureResult, VerifyResult
    from creekdb.pipeline.storage import Location

VERDICT_STYLES: Final = {"ok": "green", "unknown": "yellow", "illegal": "red"}

OUT: Final = argument(metavar="OUT")
STRICT: Final = option("Fail on a run that cannot be read, instead of skipping it.")


@click.command(short_help="Measure the runs of a directory.")
@declared
def measure(
    out: str = OUT,
    *,
    spark_arguments: SparkArguments,
    strict: bool = STRICT,
    as_json: bool = option("Print measures and peaks as JSON.", flag="--json"),
) -> int:
    """Measure all runs in OUT: throughput, latencies, accuracy, ratios, and peaks.

    OUT is the output of 'simulate', or any directory of run directories, such as runs of a live
    cluster. It may be a URI, such as s3a://bucket/runs. The tables are saved with the runs, as
    Parquet: measures, latencies, summary (means over seeds, with confidence intervals) and peaks.

    \b
    Examples:
      creek pipeline measure runs/quick
      creek pipeline measure runs/quick --json | jq '.peaks[].peak_tps'
    """
    with require_packages():
        from creekdb.pipeline.stages.results import measure_runs, read_result  # noqa: PLC0415
    location = existing_directory(out)
    with spark_session(spark_arguments, "creek: measure") as spark:
        skipped = import_runs(spark, location, strict)
        measured = run_with_status("measuring", lambda: measure_runs(spark, location), spark)
        if as_json:
            tables = {"measures": measured.measures, "peaks": read_result(spark, location, "peaks")}
            rows = {name: _rows(frame) for name, frame in tables.items()}
    print_skipped(skipped)
    if as_json:
        print_json({**rows, "skipped": skipped})
    else:
        print_measured(measured, location)
    return SUCCESS


@click.command(short_help="Check the runs of a directory, or a live cluster as it commits.")
@declared
def verify(
    out: str | None = argument(metavar="[OUT]", required=False),
    *,
    servers: str | None = option(
        "Check this live cluster instead, like 'creek pipeline audit', which has more options.",
        metavar="HOST:PORT,…",
    ),
    datatype: str | None = option(
        "With --servers: data type of the cluster, whose operations are executed again."
    ),
    duration: str | None = option(
        "With --servers: time after which the command stops.", flag="--for", metavar="DURATION"
    ),
    spark_arguments: SparkArguments,
    strict: bool = STRICT,
    as_json: bool = option("Print every verdict as JSON.", flag="--json"),
) -> int:
    """Check all runs in OUT for every property that Creek guarantees.

    Orders, real time, sessions and convergence are checked on the tables of the runs, of any
    length. The other properties are checked on recorded histories, by the task that simulates or
    imports a run. The verdicts are saved with the runs, as Parquet. Exits with 1 if one of them is
    illegal.

    With --servers, follow a live cluster and check its history as it grows. Name all replicas.

    \b
    Examples:
      creek pipeline verify runs/quick
      creek pipeline verify runs/quick --strict --json
      creek pipeline verify --servers a:7100,b:7100,c:7100 --datatype kv
    """
    if servers is not None:
        if strict:
            raise UsageError("cannot verify: --strict is for runs; omit it with --servers")
        given = {"servers": servers, "datatype": datatype, "duration": duration, "out": out}
        return _audit(given, spark_arguments, as_json)
    if out is None:
        raise UsageError(
            "cannot verify: OUT is missing; name an output of 'simulate', or a live cluster with "
            "--servers"
        )
    if datatype is not None or duration is not None:
        raise UsageError(
            "cannot verify: --datatype and --for are for a live cluster; add --servers"
        )
    with require_packages():
        from creekdb.pipeline.stages.results import verify_runs  # noqa: PLC0415
    location = existing_directory(out)
    with spark_session(spark_arguments, "creek: verify") as spark:
        skipped = import_runs(spark, location, strict)
        verified = run_with_status("verifying", lambda: verify_runs(spark, location), spark)
        rows = _rows(verified.verdicts) if as_json else []
    print_skipped(skipped)
    if as_json:
        print_json({"verdicts": rows, "skipped": skipped})
    else:
        print_verified(verified, location)
    return FAILURE if verified.illegal else SUCCESS


def _audit(given: Mapping[str, str | None], spark_arguments: SparkArguments, as_json: bool) -> int:
    """Run 'creek pipeline audit' with the options that have a value."""
    from creekdb.cli.commands.pipeline.audit import audit  # noqa: PLC0415

    options = {name: each for name, each in given.items() if each is not None}
    arguments = {**options, **spark_arguments._asdict(), "as_json": as_json}
    code: int = click.get_current_context().invoke(audit, **arguments)
    return code


def existing_directory(out: str) -> "Location":
    with require_packages():
        from creekdb.pipeline.storage import Location  # noqa: PLC0415
    location = Location.parse(out)
    if not location.is_directory():
        raise UsageError(f"cannot read {location}: it does not exist; name an output of 'simulate'")
    return location


def import_runs(spark: "SparkSession", out: "Location", strict: bool) -> list[str]:
    """Add run directories to the tables; return the reasons why some were skipped."""
    from creekdb.pipeline.stages.live_import import new_stored_runs  # noqa: PLC0415
    from creekdb.pipeline.stages.simulate import simulate  # noqa: PLC0415

    runs = new_stored_runs(out)
    if not runs:
        return []
    failures = run_with_status(
        "importing", lambda: simulate(spark, (), out, additional=runs), spark
    )
    skipped = [failure.reason for failure in failures]
    if skipped and (strict or len(skipped) == len(runs)):
        raise StorageFault(skipped[0])
    return skipped


def _rows(frame: "DataFrame") -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.toLocalIterator()]


def print_measured(measured: "MeasureResult", out: "Location") -> None:
    table = _result_table("scheme", "runs", "saturated", "operations")
    for scheme, runs, saturated, operations in measured.schemes:
        table.add_row(scheme, str(runs), str(saturated), f"{operations:,}")
    print_table(table)
    if measured.peaks:
        print_table(_peak_table([row.asDict() for row in measured.peaks]))
    click.echo(f"{pluralize(measured.runs, 'run')} measured; the tables are in {out}")


def print_verified(verified: "VerifyResult", out: "Location") -> None:
    print_table(_verdict_table(verified))
    if any(row["verdict"] == "unknown" for row in verified.counts):
        note = "unknown is not a violation: the run lacks the records for this check"
        print_lines([Text(note, "dim")])
    print_lines(_counterexample_lines(verified))
    runs = pluralize(verified.runs, "run")
    illegal = pluralize(verified.illegal, "illegal verdict") if verified.illegal else "no violation"
    click.echo(f"{runs} checked, {illegal}; the verdicts are in {out / 'verdicts'}")


def print_skipped(skipped: Sequence[str]) -> None:
    for reason in skipped:
        stderr_console().print(Text(f"skipped: {reason}", style="yellow"), soft_wrap=True)


def _result_table(*columns: str) -> Table:
    return new_table(*columns, left=columns[:1], min_width=9)


def _peak_table(peaks: Sequence[Mapping[str, Any]]) -> Table:
    """Return the mean peaks over seeds, by the parameters that vary."""
    varied = [
        name
        for name in peaks[0]
        if name not in ("seeds", "peak_tps")
        and (name == "scheme" or len({row[name] for row in peaks}) > 1)
    ]
    table = _result_table(*(name.replace("_", " ") for name in varied), "seeds", "peak per second")
    for row in peaks:
        cells = ("-" if row[name] is None else f"{row[name]}" for name in varied)
        table.add_row(*cells, str(row["seeds"]), f"{row['peak_tps']:,.0f}")
    return table


def _verdict_table(verified: "VerifyResult") -> Table:
    table = _result_table("checker", *VERDICT_STYLES)
    counts = {(row["checker"], row["verdict"]): row["runs"] for row in verified.counts}
    for checker in sorted({checker for checker, _ in counts}):
        cells = (
            Text(str(count), style if count else "dim")
            for verdict, style in VERDICT_STYLES.items()
            for count in [counts.get((checker, verdict), 0)]
        )
        table.add_row(checker.replace("_", " "), *cells)
    return table


def _counterexample_lines(verified: "VerifyResult") -> list[Text]:
    lines: list[Text] = []
    for row in verified.counterexamples:
        lines.append(Text(f"✗ {row['run']}: {row['checker'].replace('_', ' ')}", style="red"))
        lines += [Text(f"    {line}") for line in row["detail"].splitlines()]
        command = row["command"].replace("creek", command_name(), 1)
        lines.append(Text(f"    reproduce it with: {command}", style="dim"))
    if (more := verified.illegal - len(verified.counterexamples)) > 0:
        lines.append(Text(f"… and {more} more"))
    return lines


@click.command(short_help="Write the report.")
@declared
def report(
    out: str = OUT, *, is_opened: bool = option("Open the report in a browser.", flag="--open")
) -> int:
    """Write a report of the measures and verdicts in OUT, with the paper's figures redrawn.

    The report, OUT/report.html, is a single file that works offline. OUT/figures contains the
    figures as images, and OUT/statements.md the paper's statements as a table. The report requires
    the output of 'measure' in OUT, and includes the output of 'verify' if it exists.

    \b
    Example:
      creek pipeline measure runs/quick
      creek pipeline verify runs/quick
      creek pipeline report runs/quick --open
    """
    with require_packages():
        from creekdb.pipeline.report import write_report  # noqa: PLC0415
    written = write_report(existing_directory(out))
    print_lines(map(Text, [*written.summary, str(written.page)]))
    if is_opened:
        webbrowser.open(written.page.uri)
    return SUCCESS


DEFAULT_DIRECTORY: Final = "runs"


@click.command(short_help="Simulate, measure, verify and report.")
@declared
def run(
    *,
    grid_name: str = option(default="quick", **GRID_SETTINGS),
    out: str | None = option(
        f"Output directory, or a URI.  [default: {DEFAULT_DIRECTORY}/NAME-OF-THE-GRID]"
    ),
    live: tuple[Path, ...] = option(
        "Run directory of a live cluster to compare with. May be repeated.", metavar="RUN"
    ),
    record_live: Path | None = option(
        "Record such a run first, in place of an earlier one, like 'creek live-run'.", metavar="RUN"
    ),
    spark_arguments: SparkArguments,
    force: bool = FORCE,
) -> int:
    """Simulate a grid of experiments, measure and verify all runs, and write a report.

    Completed experiments are not simulated again: after an interruption, or with a larger grid, the
    same command continues. Exits with 1 if an experiment failed or a verdict is illegal.

    A live run is measured and verified like the others. A counterpart of it is simulated, with the
    same number of replicas, the same load, and the same faults at the same times. A run that is
    recorded here is also watched, like 'creek pipeline watch', and the report links to the result.

    \b
    Examples:
      creek pipeline run                    a few of the paper's experiments
      creek pipeline run --grid paper       all of them: one to two hours
      creek pipeline run --grid beyond      Creek's extensions beyond the paper
      creek pipeline run --grid mine.toml --out runs/mine
      creek pipeline run --record-live runs/live
      creek live-run --out runs/live && creek pipeline run --live runs/live
    """
    with require_packages():
        from creekdb.pipeline.report import write_report  # noqa: PLC0415
        from creekdb.pipeline.stages import live_import  # noqa: PLC0415
        from creekdb.pipeline.stages.grid import load_grid  # noqa: PLC0415
        from creekdb.pipeline.stages.output_dir import prepare_output_dir  # noqa: PLC0415
        from creekdb.pipeline.stages.results import measure_runs, verify_runs  # noqa: PLC0415
        from creekdb.pipeline.stages.simulate import simulate  # noqa: PLC0415
        from creekdb.pipeline.storage import Location  # noqa: PLC0415
    grid = load_grid(grid_name)
    live_import.load_live_configs(live)
    directory = Location.parse(out or f"{DEFAULT_DIRECTORY}/{Path(grid_name).stem}")
    prepare_output_dir(directory, grid, force)
    name = f"creek: {grid_name}"
    with resume_hint(directory), starting_spark(spark_arguments, name) as wait_for_spark:
        if record_live is not None:  # Meanwhile, Spark starts.
            record_live_run(record_live, directory, wait_for_spark)
            live = (*live, record_live)
        counterparts = live_import.simulated_counterparts(
            live_import.load_live_configs(live).values()
        )
        imported = live_import.live_runs(live)
        live_import.remove_earlier_imports(directory, grid, (*counterparts, *imported))
        names = {each.name for each in grid.cells}
        counterparts = tuple(each for each in counterparts if each.name not in names)
        experiments = len(grid.cells) + len(counterparts)
        suffix = f" and {pluralize(len(live), 'live run')}" if live else ""
        click.echo(f"{pluralize(experiments, 'experiment')}{suffix}, to {directory}")
        spark = wait_for_spark()
        with simulation_progress() as on_progress:
            failures = simulate(
                spark,
                grid.cells,
                directory,
                on_progress,
                print_error,
                additional=(*counterparts, *imported),
            )
        print_simulated(experiments, failures, directory)
        measured = run_with_status(
            "measuring", lambda: measure_runs(spark, directory), spark, always=True
        )
        print_measured(measured, directory)
        verified = run_with_status(
            "verifying", lambda: verify_runs(spark, directory), spark, always=True
        )
    print_verified(verified, directory)
    written = run_with_status("drawing", lambda: write_report(directory), always=True)
    print_lines(map(Text, written.summary))
    print_lines([Text.assemble("the report is ", (str(written.page), "bold"))])
    return FAILURE if failures or verified.illegal else SUCCESS


def record_live_run(
    out: Path, directory: "Location", wait_for_spark: "Callable[[], SparkSession]"
) -> None:
    """Record a live run with the defaults of 'creek live-run', and watch it.

    The watch reads the changes of the replicas after the load, so it does not slow them down.
    """
    from creekdb.cli.commands.live_run import (  # noqa: PLC0415
        check_output,
        default_config,
        record_run,
    )
    from creekdb.pipeline.spark.session import is_local_session  # noqa: PLC0415
    from creekdb.pipeline.watch.watcher import WATCH_DIR, watch_history  # noqa: PLC0415

    check_output(out, force=True)
    watch = directory / WATCH_DIR
    watch.remove()

    def watch_cluster(addresses: Sequence[str]) -> None:
        spark = wait_for_spark()
        if not is_local_session(spark):
            return  # executors elsewhere cannot reach the replicas
        try:
            page = watch_history(spark, watch, addresses)
        except CreekError as error:
            print_error(f"the live run was not watched: {error}")
        else:
            click.echo(f"throughput, latency, apologies and hot keys of the live run: {page}")

    record_run(default_config(), out, watch_cluster)
