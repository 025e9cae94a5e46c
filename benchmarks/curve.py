"""Latency over load: `python -m benchmarks.curve`.

Weak and strong puts of Creek, and puts of etcd where it is installed, are measured in one run, with
three servers each on this machine. Calls arrive at random times, independently of earlier
responses. The offered load rises, and a system stops at the first load of which it answers less
than 95 %. At each load the systems alternate, in another order each round, and each round starts
after Creek has stabilised. Between loads, the latency of disk and loopback alone is measured.

Latency counts from the sending of a call. A load generator that shares the cores with the servers
sends late. This delay is reported separately. Calls that are due and never sent count as
unanswered.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from typing import Final

import click
import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import curve_picture
from benchmarks.comparison import VALUE_BYTES, Measurements, RunningSystems, running_systems
from benchmarks.competitors import etcd
from benchmarks.curve_figures import (
    NAMES,
    Figures,
    FloorFigures,
    Point,
    loads,
    raise_load,
    summarise_point,
)
from benchmarks.hardware_floor import HardwareFloor
from benchmarks.scale import FULL, QUICK, Scale
from creekdb.execution.python_runtime import build_kind
from creekdb.wire.event_loop import run_in_new_loop

FIRST_LOAD: Final = 100.0
LOAD_FACTOR: Final = sqrt(2)
QUICK_LOAD_FACTOR: Final = 2.0
"""Factor between loads with `--quick`."""
FLOOR_RATE: Final = 200
"""Rate of the measurement of disk and loopback, per second."""
FIGURES: Final = "live-latency.json"
PICTURE: Final = "live-latency.svg"


def report(what: str) -> None:
    print(f"curve: {what}", file=sys.stderr, flush=True)


def empty_figures(scale: Scale) -> Figures:
    """Return figures without points."""
    return Figures(
        how_it_ran=build_kind(),
        cores=os.cpu_count() or 1,
        turns=scale.live_rounds,
        turn_s=scale.live_s,
        value_bytes=VALUE_BYTES,
        points=[],
    )


def measure_curve(figures: Figures, scale: Scale, load_factor: float) -> Iterator[None]:
    """Add points to the figures, and yield after each load."""
    with running_systems(report) as running:
        if running.etcd is None:
            report(etcd.MISSING)
        floor = HardwareFloor(running.directory, VALUE_BYTES, FLOOR_RATE)

        def measure_at(names: list[str], load: float) -> list[Point]:
            return _measure_load(running, names, scale, load)

        for points in raise_load(
            [each.name for each in running.systems], loads(FIRST_LOAD, load_factor), measure_at
        ):
            figures.points += points
            report("disk and loopback alone")
            floor.measure(scale.live_s / 2)
            figures.floor = FloorFigures(
                write_ms=floor.write_ms,
                echo_ms=floor.echo_ms,
                p50_ms=floor.write_and_echo.p50,
                p99_ms=floor.write_and_echo.p99,
            )
            yield


def _measure_load(
    running: RunningSystems, names: list[str], scale: Scale, load: float
) -> list[Point]:
    systems = [each for each in running.systems if each.name in names]
    measurements = {each.name: Measurements([], []) for each in systems}
    for number in range(scale.live_rounds):
        first = number % len(systems)
        for system in systems[first:] + systems[:first]:
            run_in_new_loop(running.cluster.wait_until_stable())
            meter = measurements[system.name].measure(system, scale.live_s, number, load)
            latency = meter.latency_of_kind(system.kind)
            report(
                f"{load:,.0f} per second, {NAMES[system.name]}, round {number + 1} of "
                f"{scale.live_rounds}: {meter.completed / meter.duration_s:,.0f} answered"
                + (
                    f", median {latency.p50:.2f} ms, 99 % within {latency.p99:.2f} ms"
                    if latency
                    else ""
                )
            )
    points = [
        summarise_point(each.name, each.kind, load, measurements[each.name]) for each in systems
    ]
    for each in points:
        if not each.keeps_up:
            report(
                f"{NAMES[each.system]} does not keep up: {each.answered:,.0f} of "
                f"{each.offered:,.0f} per second answered"
            )
    return points


def table(figures: Figures) -> Table:
    rich_table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in (
        "offered\nper second",
        *(f"{NAMES[name]}\n50 %   99 % ms" for name in figures.systems),
        "send delay\n99 % ms",
    ):
        rich_table.add_column(heading, justify="right", no_wrap=True)
    for load in sorted({each.load for each in figures.points}):
        at_load = {each.system: each for each in figures.points if each.load == load}
        cells = [_point_cell(at_load.get(name)) for name in figures.systems]
        send_delay_ms = max(each.late_p99_ms for each in at_load.values())
        rich_table.add_row(f"{load:,.0f}", *cells, f"{send_delay_ms:.1f}")
    return rich_table


def _point_cell(point: Point | None) -> str:
    if point is None:
        return ""
    if not point.keeps_up:
        return f"only {point.answered:,.0f}/s"
    return f"{point.p50_ms:.2f} {point.p99_ms:7.2f}"


def read(path: Path) -> Figures:
    try:
        figures = msgspec.json.decode(path.read_bytes(), type=Figures)
    except (OSError, msgspec.DecodeError) as error:
        raise click.ClickException(f"cannot read figures from {path}: {error}") from error
    if not figures.points:
        raise click.ClickException(
            f"cannot read figures from {path}: the run ended before its first load"
        )
    return figures


def _check_writable(out: Path) -> None:
    """Fail before the measurement if its results cannot be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        raise click.ClickException(
            f"cannot write to {out}: {error.strerror or error}; choose another directory with --out"
        ) from error


def print_figures(figures: Figures) -> None:
    Console().print(table(figures))
    click.echo(
        f"Three servers each on {figures.cores} shared cores, values of "
        f"{figures.value_bytes} bytes, {figures.turns} rounds of {figures.turn_s:g} s. "
        f"Creek ran {figures.how_it_ran}."
    )
    if (floor := figures.floor) is not None:
        click.echo(
            f"The machine alone takes {floor.write_ms:.2f} ms for a synced write, "
            f"{floor.echo_ms:.2f} ms for an echo over loopback, and for both together at most "
            f"{floor.p99_ms:.2f} ms in 99 % of cases."
        )
    if "etcd" not in figures.systems:
        click.echo(f"etcd was not measured: {etcd.MISSING}.")


@click.command()
@click.option("--quick", is_flag=True, help="Measure fewer loads for a shorter time: 3 minutes.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/curve"),
    show_default=True,
    help="Directory for the figures and the picture.",
)
@click.option(
    "--from",
    "earlier",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Measure nothing; draw the figures of an earlier run from its JSON file.",
)
def main(quick: bool, out: Path, earlier: Path | None) -> None:
    """Measure latency over load, of Creek and of etcd, in about 20 minutes.

    Prints a table, writes the figures as JSON after each load, and draws them as SVG.

    \b
    Examples:
      python -m benchmarks.curve --quick
      python -m benchmarks.curve --out runs/curve
      python -m benchmarks.curve --from runs/curve/live-latency.json
    """
    if earlier is not None:
        figures = read(earlier)
        _check_writable(out)
    else:
        _check_writable(out)
        scale, load_factor = (QUICK, QUICK_LOAD_FACTOR) if quick else (FULL, LOAD_FACTOR)
        figures = empty_figures(scale)
        for _ in measure_curve(figures, scale, load_factor):
            encoded = msgspec.json.format(msgspec.json.encode(figures))
            (out / FIGURES).write_bytes(encoded + b"\n")
    (out / PICTURE).write_text(curve_picture.svg(figures), encoding="utf-8")
    print_figures(figures)
    click.echo(f"Picture: {out / PICTURE}")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.curve")
