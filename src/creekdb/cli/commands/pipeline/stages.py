"""`creek pipeline measure`, `verify`, `report` and `run`: stages that evaluate simulated runs."""

import webbrowser
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from rich.table import Table
from rich.text import Text

from creekdb.cli.commands.pipeline.group import (
    FORCE,
    GRID_SETTINGS,
    MASTER,
    print_error,
    print_simulated,
    require_packages,
    resume_hint,
    run_with_status,
    simulation_progress,
    spark_session,
)
from creekdb.cli.declaration import argument, declared, option
from creekdb.cli.exit_codes import FAILURE, SUCCESS
from creekdb.cli.options import EXISTING_DIRECTORY
from creekdb.cli.output import (
    command_name,
    new_table,
    pluralize,
    print_json,
    print_lines,
    print_table,
    stderr_console,
)

COUNTEREXAMPLES_MAX: Final = 10
"""Upper bound for the counterexamples printed; the table of verdicts contains all."""
VERDICT_STYLES: Final = {"ok": "green", "unknown": "yellow", "illegal": "red"}

OUT: Final = argument(type=EXISTING_DIRECTORY)
STRICT: Final = option("Fail on a run that cannot be read, instead of skipping it.")


@click.command(short_help="Measure the runs of a directory.")
@declared
def measure(
    out: Path = OUT,
    *,
    master: str = MASTER,
    strict: bool = STRICT,
    as_json: bool = option("Print measures and peaks as JSON.", flag="--json"),
) -> int:
    """Measure all runs in OUT: throughput, latencies, accuracy, ratios, and peaks.

    OUT is the output of 'simulate', or any directory of run directories, such as runs of a live
    cluster. The tables are saved with the runs, as Parquet: measures, latencies, summary (means
    over seeds, with confidence intervals) and peaks.

    \b
    Examples:
      creek pipeline measure runs/quick
      creek pipeline measure runs/quick --json | jq '.peaks[].peak_tps'
    """
    with require_packages():
        from creekdb.pipeline.stages.results import measure_runs  # noqa: PLC0415
    with spark_session(master, "creek: measure") as spark:
        measured = run_with_status("measuring", lambda: measure_runs(spark, out, strict), spark)
    measures = [row.asDict() for row in measured.measures]
    peaks = [row.asDict() for row in measured.peaks]
    print_skipped(measured.skipped)
    if as_json:
        print_json({"measures": measures, "peaks": peaks, "skipped": measured.skipped})
    else:
        print_measured(measures, peaks, out)
    return SUCCESS


@click.command(short_help="Check the runs of a directory.")
@declared
def verify(
    out: Path = OUT,
    *,
    master: str = MASTER,
    strict: bool = STRICT,
    as_json: bool = option("Print every verdict as JSON.", flag="--json"),
) -> int:
    """Check all runs in OUT for every property that Creek guarantees.

    Orders, real time and sessions are checked on the tables of the runs, of any length; the other
    properties on the recorded histories. The verdicts are saved with the runs, as Parquet. Exits
    with 1 if one of them is illegal.

    \b
    Examples:
      creek pipeline verify runs/quick
      creek pipeline verify runs/quick --strict --json
    """
    with require_packages():
        from creekdb.pipeline.stages.results import verify_runs  # noqa: PLC0415
    with spark_session(master, "creek: verify") as spark:
        verified = run_with_status("verifying", lambda: verify_runs(spark, out, strict), spark)
    verdicts = [row.asDict() for row in verified.verdicts]
    print_skipped(verified.skipped)
    if as_json:
        print_json({"verdicts": verdicts, "skipped": verified.skipped})
    else:
        print_verified(verdicts, out)
    return FAILURE if _illegal(verdicts) else SUCCESS


def print_measured(
    measures: Sequence[Mapping[str, Any]], peaks: Sequence[Mapping[str, Any]], out: Path
) -> None:
    print_table(_scheme_table(measures))
    if peaks:
        print_table(_peak_table(peaks))
    click.echo(f"{pluralize(len(measures), 'run')} measured; the tables are in {out}")


def print_verified(verdicts: Sequence[Mapping[str, Any]], out: Path) -> None:
    illegal = _illegal(verdicts)
    print_table(_verdict_table(verdicts))
    if any(each["verdict"] == "unknown" for each in verdicts):
        note = "unknown is not a violation: the run lacks the records for this check"
        print_lines([Text(note, "dim")])
    print_lines(_counterexample_lines(illegal))
    runs = pluralize(len({each["run"] for each in verdicts}), "run")
    result = pluralize(len(illegal), "illegal verdict") if illegal else "no violation"
    click.echo(f"{runs} checked, {result}; the verdicts are in {out / 'verdicts'}")


def print_skipped(skipped: Sequence[str]) -> None:
    for reason in skipped:
        stderr_console().print(Text(f"skipped: {reason}", style="yellow"), soft_wrap=True)


def _result_table(*columns: str) -> Table:
    return new_table(*columns, left=columns[:1], min_width=9)


# --- measures ----------------------------------------------------------------------------------


def _scheme_table(measures: Sequence[Mapping[str, Any]]) -> Table:
    table = _result_table("scheme", "runs", "saturated", "operations")
    for scheme in sorted({each["scheme"] for each in measures}):
        runs = [each for each in measures if each["scheme"] == scheme]
        saturated = sum(bool(each["saturated"]) for each in runs)
        operations = sum(each["asked"] for each in runs)
        table.add_row(scheme, str(len(runs)), str(saturated), f"{operations:,}")
    return table


_PEAK_COLUMNS: Final = ("seed", "peak_tps", "load_tps", "saturating_tps")


def _peak_table(peaks: Sequence[Mapping[str, Any]]) -> Table:
    """Return the peaks by the varied parameters, averaged over seeds."""
    parameters = [name for name in peaks[0] if name not in _PEAK_COLUMNS]
    varied = [
        name for name in parameters if name == "scheme" or len({row[name] for row in peaks}) > 1
    ]
    table = _result_table(*(name.replace("_", " ") for name in varied), "seeds", "peak per second")
    groups: dict[tuple[Any, ...], list[float]] = {}
    for row in peaks:
        groups.setdefault(tuple(row[name] for name in varied), []).append(row["peak_tps"])
    for values, group in groups.items():
        cells = ("-" if value is None else f"{value}" for value in values)
        table.add_row(*cells, str(len(group)), f"{sum(group) / len(group):,.0f}")
    return table


# --- verdicts ----------------------------------------------------------------------------------


def _illegal(verdicts: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [each for each in verdicts if each["verdict"] == "illegal"]


def _verdict_table(verdicts: Iterable[Mapping[str, Any]]) -> Table:
    table = _result_table("checker", *VERDICT_STYLES)
    counts = Counter((each["checker"], each["verdict"]) for each in verdicts)
    for checker in sorted({checker for checker, _ in counts}):
        cells = (
            Text(str(counts[checker, verdict]), style if counts[checker, verdict] else "dim")
            for verdict, style in VERDICT_STYLES.items()
        )
        table.add_row(checker.replace("_", " "), *cells)
    return table


def _counterexample_lines(illegal: Sequence[Mapping[str, Any]]) -> list[Text]:
    lines: list[Text] = []
    for each in illegal[:COUNTEREXAMPLES_MAX]:
        lines.append(Text(f"✗ {each['run']}: {each['checker'].replace('_', ' ')}", style="red"))
        lines += [Text(f"    {line}") for line in each["detail"].splitlines()]
        command = each["command"].replace("creek", command_name(), 1)
        lines.append(Text(f"    reproduce it with: {command}", style="dim"))
    if len(illegal) > COUNTEREXAMPLES_MAX:
        lines.append(Text(f"… and {len(illegal) - COUNTEREXAMPLES_MAX} more"))
    return lines


@click.command(short_help="Write the report.")
@declared
def report(
    out: Path, *, is_opened: bool = option("Open the report in a browser.", flag="--open")
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
    written = write_report(out)
    print_lines(map(Text, [*written.summary, str(written.page)]))
    if is_opened:
        webbrowser.open(written.page.resolve().as_uri())
    return SUCCESS


DEFAULT_DIRECTORY: Final = "runs"


@click.command(short_help="Simulate, measure, verify and report.")
@declared
def run(
    *,
    grid_name: str = option(default="quick", **GRID_SETTINGS),
    out: Path | None = option(
        f"Output directory.  [default: {DEFAULT_DIRECTORY}/NAME-OF-THE-GRID]"
    ),
    live: tuple[Path, ...] = option(
        "Run directory of a live cluster to compare with. May be repeated.", metavar="RUN"
    ),
    master: str = MASTER,
    force: bool = FORCE,
) -> int:
    """Simulate a grid of experiments, measure and verify all runs, and write a report.

    Completed experiments are not simulated again: after an interruption, or with a larger grid, the
    same command continues. Exits with 1 if an experiment failed or a verdict is illegal.

    A live run is measured and verified like the others. A counterpart of it is simulated, with the
    same number of replicas, the same load, and the same faults at the same times.

    \b
    Examples:
      creek pipeline run                    a few of the paper's experiments
      creek pipeline run --grid paper       all of them: one to two hours
      creek pipeline run --grid mine.toml --out runs/mine
      creek live-run --out runs/live && creek pipeline run --live runs/live
    """
    with require_packages():
        from creekdb.pipeline.report import write_report  # noqa: PLC0415
        from creekdb.pipeline.stages.grid import load_grid  # noqa: PLC0415
        from creekdb.pipeline.stages.live_import import (  # noqa: PLC0415
            import_live_runs,
            load_live_configs,
            simulated_counterparts,
        )
        from creekdb.pipeline.stages.output_dir import prepare_output_dir  # noqa: PLC0415
        from creekdb.pipeline.stages.results import measure_runs, verify_runs  # noqa: PLC0415
        from creekdb.pipeline.stages.simulate import simulate  # noqa: PLC0415
    grid = load_grid(grid_name)
    directory = out or Path(DEFAULT_DIRECTORY) / Path(grid_name).stem
    counterparts = simulated_counterparts(load_live_configs(live).values())
    prepare_output_dir(directory, grid, force)
    if live:
        import_live_runs(directory, grid, live, counterparts)
    cells = tuple({each.name: each for each in (*grid.cells, *counterparts)}.values())
    suffix = f" and {pluralize(len(live), 'live run')}" if live else ""
    click.echo(f"{pluralize(len(cells), 'experiment')}{suffix}, Spark at {master}, to {directory}")
    with resume_hint(directory), spark_session(master, f"creek: {grid_name}") as spark:
        with simulation_progress() as on_progress:
            failures = simulate(spark, cells, directory, on_progress, print_error)
        print_simulated(len(cells), failures, directory)
        measured = run_with_status(
            "measuring", lambda: measure_runs(spark, directory), spark, always=True
        )
        print_skipped(measured.skipped)
        print_measured(
            [row.asDict() for row in measured.measures],
            [row.asDict() for row in measured.peaks],
            directory,
        )
        verified = run_with_status(
            "verifying", lambda: verify_runs(spark, directory), spark, always=True
        )
    verdicts = [row.asDict() for row in verified.verdicts]
    print_verified(verdicts, directory)
    written = run_with_status("drawing", lambda: write_report(directory), always=True)
    print_lines(map(Text, written.summary))
    print_lines([Text.assemble("the report is ", (str(written.page), "bold"))])
    return FAILURE if failures or _illegal(verdicts) else SUCCESS
