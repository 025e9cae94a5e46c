"""`creek pipeline run`: from a grid to a page, in one go."""

from pathlib import Path
from typing import Final

import click
from rich.text import Text

from creekdb.cli.exits import FINE, ILLEGAL
from creekdb.cli.output import show
from creekdb.cli.pipeline import (
    complain,
    going_on_later,
    needed_packages,
    on_spark,
    tell_simulated,
    waiting,
    watching,
    with_master,
)
from creekdb.cli.pipeline_stages import tell_measured, tell_skipped, tell_verified
from creekdb.cli.words import counted

FOLDER: Final = "runs"


@click.command(short_help="Simulate, measure, verify and report.")
@click.option(
    "--grid",
    "grid_name",
    default="quick",
    show_default=True,
    metavar="FILE|paper|quick",
    help="Which experiments: those of the paper, a few of them, or a TOML or JSON file.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help=f"Where everything goes.  [default: {FOLDER}/NAME-OF-THE-GRID]",
)
@click.option(
    "--live",
    "live",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="A run of a live cluster, to stand beside them; as often as you like.",
)
@with_master
@click.option("--force", is_flag=True, help="Replace what another grid left in the folder.")
def run(grid_name: str, out: Path | None, live: tuple[Path, ...], master: str, force: bool) -> int:
    """Simulate a grid of experiments, measure and verify all runs, and make one page of it.

    What is there already is not simulated again: after an interruption, or with more experiments
    in a grid's file, the same command goes on. Exits with 1 when an experiment failed or a verdict
    is illegal.

    A live run is measured and verified like the others. Beside it, its twin is simulated: as many
    replicas, the same load, and the same faults at the same times.

    \b
    Examples:
      creek pipeline run                    a few of the paper's experiments
      creek pipeline run --grid paper       all of them: an hour or two
      creek pipeline run --grid mine.toml --out runs/mine
      creek live-run --out runs/live && creek pipeline run --live runs/live
    """
    with needed_packages():
        from creekdb.pipeline.grid import load_grid  # noqa: PLC0415
        from creekdb.pipeline.live import live_configs, take_in, twins  # noqa: PLC0415
        from creekdb.pipeline.output import prepare  # noqa: PLC0415
        from creekdb.pipeline.report import write_report  # noqa: PLC0415
        from creekdb.pipeline.simulate import simulate  # noqa: PLC0415
        from creekdb.pipeline.stages import measure_runs, verify_runs  # noqa: PLC0415
    grid = load_grid(grid_name)
    folder = out or Path(FOLDER) / Path(grid_name).stem
    beside = twins(live_configs(live).values())
    prepare(folder, grid, force)
    if live:
        take_in(folder, grid, live, beside)
    cells = tuple({each.name: each for each in (*grid.cells, *beside)}.values())
    told = f" and {counted(len(live), 'live run')}" if live else ""
    click.echo(f"{counted(len(cells), 'experiment')}{told}, on Spark at {master}, to {folder}")
    with going_on_later(folder), on_spark(master, f"creek: {grid_name}") as spark:
        with watching() as watch:
            failures = simulate(spark, cells, folder, watch, complain)
        tell_simulated(len(cells), failures, folder)
        measured = waiting("measuring", lambda: measure_runs(spark, folder), spark, aloud=True)
        tell_skipped(measured.skipped)
        tell_measured(
            [row.asDict() for row in measured.measures],
            [row.asDict() for row in measured.peaks],
            folder,
        )
        verified = waiting("verifying", lambda: verify_runs(spark, folder), spark, aloud=True)
    verdicts = [row.asDict() for row in verified.verdicts]
    tell_verified(verdicts, folder)
    written = waiting("drawing", lambda: write_report(folder), aloud=True)
    show(map(Text, written.summary))
    show([Text.assemble("the report is ", (str(written.page), "bold"))])
    illegal = any(each["verdict"] == "illegal" for each in verdicts)
    return ILLEGAL if failures or illegal else FINE
