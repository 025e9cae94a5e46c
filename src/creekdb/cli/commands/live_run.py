"""`creek live-run`: a live cluster under load and faults, saved as a run."""

import shutil
from pathlib import Path
from typing import Final

import click

from creekdb.cli.declaration import declared, option
from creekdb.cli.exit_codes import FAILURE, SUCCESS
from creekdb.cli.options import NEW_RUN, RATE, WAREHOUSES
from creekdb.cli.output import command_line, command_name, pluralize, scratch_directory
from creekdb.cli.scenario_options import MEASUREMENT
from creekdb.cli.views.measures import LoadProgress, print_errors, print_latencies
from creekdb.errors import CreekError, UsageError
from creekdb.history import LIVE_SOURCE, load_run_config, save_run
from creekdb.load.live_run import (
    WARM_UP_S,
    LiveRunConfig,
    OnStable,
    parse_fault_schedule,
    run_live,
)
from creekdb.simulation.faults.fault_types import Crash, Fault, Heal, Partition, Restart
from creekdb.simulation.faults.fields import format_duration
from creekdb.simulation.faults.language import describe_fault

REPLICAS: Final = 3
DEFAULT_DURATION_US: Final = 15_000_000
DEFAULT_FAULT_TIMES: Final = (0.2, 0.35, 0.55, 0.75)
"""Times of the default faults, as shares of the duration."""


@click.command("live-run", short_help="Run a live cluster under load and faults, and save the run.")
@declared
def live_run(
    *,
    out: Path = NEW_RUN,
    duration: int = option("Duration of the load.", "15s", MEASUREMENT),
    faults: tuple[str, ...] = option(
        "Fault to inject: crash, restart, partition or heal.  [default: each of them once]",
        flag="--fault",
        metavar="TEXT",
    ),
    load: float | None = option(
        "Transactions per second.  [default: a share of the capacity of this machine]", type=RATE
    ),
    warehouses: int = WAREHOUSES,
    seed: int = option("Seed of the random transactions.", 0, click.IntRange(min=0)),
    force: bool = option("Replace an earlier live run in the directory."),
) -> int:
    """Start three replicas on this machine, each in its own process, load TPC-C, and call
    transactions at a constant rate. Meanwhile, kill and restart a replica, and isolate another one
    and heal the partition. The recordings are saved as a run, for 'check' and the pipeline.

    Clients of a killed replica use another one until it is back. Exits with 1 if the replicas were
    not quiescent at the end.

    \b
    Examples:
      creek live-run --out runs/live
      creek live-run --out runs/mine --duration 5s \\
                     --fault 'crash 1 at 1s' --fault 'restart 1 at 2s'
      creek check runs/live
      creek pipeline run --grid quick --live runs/live
    """
    fault_schedule = (
        parse_fault_schedule("; ".join(faults), REPLICAS, duration)
        if faults
        else default_faults(duration)
    )
    check_output(out, force)
    config = LiveRunConfig(
        replicas=REPLICAS,
        warehouses=warehouses,
        load=load,
        duration_us=duration,
        faults=fault_schedule,
        seed=seed,
        command=command_line(),
    )
    return SUCCESS if record_run(config, out) else FAILURE


def record_run(config: LiveRunConfig, out: Path, on_stable: OnStable | None = None) -> bool:
    """Run, print and save a live run. Return True if its replicas were quiescent at the end."""
    population = f"{pluralize(config.warehouses, 'warehouse')} of TPC-C"
    duration = format_duration(config.duration_us)
    click.echo(f"{REPLICAS} replicas in separate processes, {population}, {duration}")
    with scratch_directory(out.parent, f".{out.name}-") as directory:
        with _LiveRunProgress(WARM_UP_S, config.duration_us / 1e6) as observer:
            history, result = run_live(config, Path(directory), observer, on_stable)
        if out.exists():
            shutil.rmtree(out)
        save_run(history, out)
    click.echo(
        f"{history.config['load_tps']:g} transactions per second offered, "
        f"{result.throughput_per_s:.1f} completed"
    )
    print_latencies(result)
    print_errors(result)
    if not history.quiescent:
        click.echo("the replicas were not quiescent when they stopped", err=True)
    click.echo(f"saved to {out}: {pluralize(len(history.operations), 'operation')}")
    click.echo(f"check it with '{command_name()} check {out}'", err=True)
    return history.quiescent


def default_config() -> LiveRunConfig:
    """Return the configuration of 'creek live-run' without options."""
    return LiveRunConfig(
        replicas=REPLICAS,
        duration_us=DEFAULT_DURATION_US,
        faults=default_faults(DEFAULT_DURATION_US),
        command=command_line(),
    )


def default_faults(duration_us: int) -> tuple[Fault, ...]:
    crash, restart, partition, heal = (round(duration_us * each) for each in DEFAULT_FAULT_TIMES)
    last = REPLICAS - 1
    return (
        Crash(crash, last),
        Restart(restart, last),
        Partition(partition, ((0,), tuple(range(1, REPLICAS)))),
        Heal(heal),
    )


def check_output(out: Path, force: bool) -> None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    try:
        is_live = load_run_config(out).get("source") == LIVE_SOURCE
    except CreekError:
        is_live = False
    if not is_live:
        raise UsageError(f"{out} exists already and is not a live run: name another directory")
    if not force:
        raise UsageError(f"{out} contains a live run: name another directory, or add --force")


class _LiveRunProgress(LoadProgress):
    """Faults and stages as lines, and the progress as a bar on a terminal."""

    def on_stage(self, text: str) -> None:
        self.update(description=text)
        if not self.is_visible:
            self.print(f"{text} ...")

    def on_fault(self, fault: Fault) -> None:
        self.print(f"{fault.at_us / 1e6:5.1f} s  {describe_fault(fault)}")
