"""`creek live-run`: a live cluster, driven and broken, and kept as a run."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from creekdb.cli.arguments import MEASUREMENT_US_MIN, DurationParam
from creekdb.cli.exit_codes import FAILURE, SUCCESS
from creekdb.cli.options import NewDirectory, Rate, warehouses_option
from creekdb.cli.output import command_name, pluralize, stderr_console
from creekdb.cli.views.measures import print_errors, print_latencies
from creekdb.errors import CreekError, UsageError
from creekdb.history import LIVE_SOURCE, load_run_config, save_run
from creekdb.load.fault_schedule import parse_fault_schedule
from creekdb.load.live_run import WARM_UP_S, LiveRunConfig, run_live
from creekdb.load.measurement import STRONG_STABLE, WEAK_TENTATIVE, LoadMeter
from creekdb.simulation.faults.fault_types import Crash, Fault, Heal, Partition, Restart
from creekdb.simulation.faults.language import describe_fault, format_duration

REPLICAS: Final = 3
DEFAULT_FAULT_TIMES: Final = ((Crash, 0.2), (Restart, 0.35), (Partition, 0.55), (Heal, 0.75))
"""What happens where nothing else is asked for, and at which part of the duration."""
RECENT_RESPONSES: Final = 1000
"""Answers whose median is shown."""


@click.command("live-run", short_help="Drive a live cluster, break it meanwhile, and keep the run.")
@click.option("--out", type=NewDirectory(), required=True, help="The new run folder.")
@click.option(
    "--duration",
    type=DurationParam(MEASUREMENT_US_MIN),
    default="15s",
    show_default=True,
    help="For how long.",
)
@click.option(
    "--faults",
    metavar="TEXT",
    help="What happens meanwhile: crash, restart, partition, heal.  [default: all of them, once]",
)
@click.option(
    "--load",
    type=Rate(),
    help="Transactions in a second.  [default: a part of what this machine can do]",
)
@warehouses_option
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="What clients ask for comes from it.",
)
@click.option("--force", is_flag=True, help="Replace an earlier live run in the folder.")
def live_run(
    out: Path,
    duration: int,
    faults: str | None,
    load: float | None,
    warehouses: int,
    seed: int,
    force: bool,
) -> int:
    """Start three replicas on this machine, each in a process of its own, load TPC-C, and ask for
    transactions, a steady number in a second. Meanwhile kill a replica, start it again, cut one off
    from the others, and mend it. What they recorded is kept as a run, for check and the pipeline.

    Who would ask the replica that was killed goes on at another one until it is back. Exits with 1
    when replicas were not at rest in the end.

    \b
    Examples:
      creek live-run --out runs/live
      creek live-run --out runs/mine --duration 5s \\
                     --faults 'crash 1 at 1s; restart 1 at 2s'
      creek check runs/live
      creek pipeline run --grid quick --live runs/live
    """
    planned = (
        default_faults(duration)
        if faults is None
        else parse_fault_schedule(faults, REPLICAS, duration)
    )
    _check_output(out, force)
    asked = LiveRunConfig(
        replicas=REPLICAS,
        warehouses=warehouses,
        load=load,
        duration_us=duration,
        faults=planned,
        seed=seed,
        command=" ".join(["creek", *sys.argv[1:]]),
    )
    population = f"{pluralize(warehouses, 'warehouse')} of TPC-C"
    click.echo(
        f"{REPLICAS} replicas, a process each, with {population}, for {format_duration(duration)}"
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    # Beside the run, not where temporary files go: that may be no disk.
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        with _LiveRunProgress(duration / 1e6).display() as onlooker:
            lived = run_live(asked, folder, onlooker)
        if out.exists():
            shutil.rmtree(out)
        save_run(lived.history, out)
    finally:
        with suppress(OSError):
            shutil.rmtree(folder)
    result = lived.result
    click.echo(
        f"{lived.load:g} transactions a second asked for, {result.throughput_per_s:.1f} done"
    )
    print_latencies(result)
    print_errors(result)
    if not lived.history.quiescent:
        click.echo("the replicas were not at rest when they were stopped", err=True)
    click.echo(f"kept in {out}: {pluralize(len(lived.history.operations), 'operation')}")
    click.echo(f"check it with '{command_name()} check {out}'", err=True)
    return SUCCESS if lived.history.quiescent else FAILURE


def default_faults(duration_us: int) -> tuple[Fault, ...]:
    at_us = {kind: round(duration_us * part) for kind, part in DEFAULT_FAULT_TIMES}
    last = REPLICAS - 1
    return (
        Crash(at_us[Crash], last),
        Restart(at_us[Restart], last),
        Partition(at_us[Partition], ((0,), tuple(range(1, REPLICAS)))),
        Heal(at_us[Heal]),
    )


def _check_output(out: Path, force: bool) -> None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    try:
        is_live = load_run_config(out).get("source") == LIVE_SOURCE
    except CreekError:
        is_live = False
    if not is_live:
        raise UsageError(f"{out} exists already, and is no live run: name another")
    if not force:
        raise UsageError(f"{out} holds a live run: name another, or replace it with --force")


class _LiveRunProgress:
    """What happens as lines, and how far it is as a bar, where there is a terminal."""

    def __init__(self, duration_s: float) -> None:
        self._console: Console = stderr_console()
        self._bar = Progress(
            BarColumn(), TextColumn("{task.description}"), console=self._console, transient=True
        )
        self._task = self._bar.add_task("", total=duration_s + WARM_UP_S)

    @contextmanager
    def display(self) -> Iterator["_LiveRunProgress"]:
        if self._console.is_terminal:
            with self._bar:
                yield self
        else:
            yield self

    def on_stage(self, text: str) -> None:
        self._bar.update(self._task, description=text)
        if not self._console.is_terminal:
            self._print(f"{text} ...")

    def on_fault(self, fault: Fault) -> None:
        self._print(f"{fault.at_us / 1e6:5.1f} s  {describe_fault(fault)}")

    def on_progress(self, elapsed_s: float, meter: LoadMeter) -> None:
        told = f"{max(0.0, elapsed_s):.0f} s"
        for name, kind in (("weak", WEAK_TENTATIVE), ("strong", STRONG_STABLE)):
            recent = sorted(meter.latencies_ns[kind][-RECENT_RESPONSES:])
            if recent:
                told += f"  {name} {recent[len(recent) // 2] / 1e6:.1f} ms"
        self._bar.update(self._task, completed=elapsed_s + WARM_UP_S, description=told)

    def _print(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)
