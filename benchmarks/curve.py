"""Latency over load: `python -m benchmarks.curve`.

Weak and strong puts of Creek, and puts of etcd where it is installed, three servers each on this
machine, in one run. Calls come at random times, whatever became of those before; so many in a
second at first, and ever more until a system answers less than 95 % of them: there it stops. At
each load the systems take turns, in another order each time, and none begins before Creek has come
to rest. Between the loads it is measured what the machine alone takes.

Latency counts from when a call was made. A load that shares the cores with what it measures makes
calls late: how late is told beside it, and calls that it did not get to count as not answered.
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
from benchmarks.beside import VALUE_BYTES, Beside, Turns, beside_each_other
from benchmarks.curve_figures import NAMES, Figures, FloorFigures, Point, climb, loads, point
from benchmarks.floor import Floor
from benchmarks.rivals import etcd
from benchmarks.scale import FULL, QUICK, Scale
from creekdb.execution.python_runtime import build_kind
from creekdb.wire.event_loop import run_in_new_loop

FIRST: Final = 100.0
STEP: Final = sqrt(2)
LONG_STEP: Final = 2.0
"""Where it is to be quick."""
PACE: Final = 200
"""At which it is measured what the machine alone takes, in a second."""
FIGURES: Final = "live-latency.json"
PICTURE: Final = "live-latency.svg"


def tell(what: str) -> None:
    print(f"curve: {what}", file=sys.stderr, flush=True)


def begun(scale: Scale) -> Figures:
    """Nothing is measured yet."""
    return Figures(
        how_it_ran=build_kind(),
        cores=os.cpu_count() or 1,
        turns=scale.live_turns,
        turn_s=scale.live_s,
        value_bytes=VALUE_BYTES,
        points=[],
    )


def measured(figures: Figures, scale: Scale, step: float) -> Iterator[None]:
    """Adds to the figures, and says so after each load."""
    with beside_each_other(tell) as both:
        if both.etcd is None:
            tell(etcd.MISSING)
        bare = Floor(both.folder, VALUE_BYTES, PACE)

        def at(names: list[str], load: float) -> list[Point]:
            return _in_turns(both, names, scale, load)

        for points in climb([each.name for each in both.systems], loads(FIRST, step), at):
            figures.points += points
            tell("the disk and the loopback alone")
            bare.measure(scale.live_s / 2)
            figures.floor = FloorFigures(
                write_ms=bare.write_ms,
                echo_ms=bare.echo_ms,
                p50_ms=bare.together.p50,
                p99_ms=bare.together.p99,
            )
            yield


def _in_turns(both: Beside, names: list[str], scale: Scale, load: float) -> list[Point]:
    systems = [each for each in both.systems if each.name in names]
    found = {each.name: Turns([], []) for each in systems}
    for number in range(scale.live_turns):
        first = number % len(systems)
        for system in systems[first:] + systems[:first]:
            run_in_new_loop(both.cluster.wait_until_stable())
            meter = found[system.name].take(system, scale.live_s, number, load)
            took = meter.latency_of_kind(system.kind)
            tell(
                f"{load:,.0f} a second, {NAMES[system.name]}, turn {number + 1} of "
                f"{scale.live_turns}: {meter.completed / meter.duration_s:,.0f} answered"
                + (f", median {took.p50:.2f} ms, 99 % within {took.p99:.2f} ms" if took else "")
            )
    points = [point(each.name, each.kind, load, found[each.name]) for each in systems]
    for each in points:
        if not each.keeps_up:
            tell(
                f"{NAMES[each.system]} does not keep up: {each.answered:,.0f} a second answered of "
                f"{each.offered:,.0f}"
            )
    return points


def table(figures: Figures) -> Table:
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in (
        "offered\na second",
        *(f"{NAMES[name]}\n50 %   99 % ms" for name in figures.systems),
        "made late\n99 % ms",
    ):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for load in sorted({each.load for each in figures.points}):
        at_it = {each.system: each for each in figures.points if each.load == load}
        cells = [_cell(at_it.get(name)) for name in figures.systems]
        late_ms = max(each.late_p99_ms for each in at_it.values())
        drawn.add_row(f"{load:,.0f}", *cells, f"{late_ms:.1f}")
    return drawn


def _cell(found: Point | None) -> str:
    if found is None:
        return ""
    if not found.keeps_up:
        return f"only {found.answered:,.0f}/s"
    return f"{found.p50_ms:.2f} {found.p99_ms:7.2f}"


def read(path: Path) -> Figures:
    try:
        figures = msgspec.json.decode(path.read_bytes(), type=Figures)
    except (OSError, msgspec.DecodeError) as error:
        raise click.ClickException(f"{path} holds no figures of an earlier run: {error}") from error
    if not figures.points:
        raise click.ClickException(f"{path} holds no figures: that run ended before its first load")
    return figures


def _make_sure_of(out: Path) -> None:
    """Known now, that it cannot be written to, not after all is measured."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        raise click.ClickException(
            f"cannot write to {out}: {error.strerror or error}; name another folder with --out"
        ) from error


def show(figures: Figures) -> None:
    Console().print(table(figures))
    click.echo(
        f"Three servers each, {figures.cores} cores for everything, values of "
        f"{figures.value_bytes} bytes, {figures.turns} turns of {figures.turn_s:g} s. "
        f"Creek ran {figures.how_it_ran}."
    )
    if (bare := figures.floor) is not None:
        click.echo(
            f"The machine alone takes {bare.write_ms:.2f} ms for a synced write, "
            f"{bare.echo_ms:.2f} ms for an echo over loopback, and for both at most "
            f"{bare.p99_ms:.2f} ms 99 times of 100."
        )
    if "etcd" not in figures.systems:
        click.echo(f"There is no line of etcd: {etcd.MISSING}.")


@click.command()
@click.option("--quick", is_flag=True, help="Fewer loads, for a shorter time: three minutes.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/curve"),
    show_default=True,
    help="The folder for figures and picture.",
)
@click.option(
    "--from",
    "earlier",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Measure nothing: draw the figures of an earlier run, from its JSON file.",
)
def main(quick: bool, out: Path, earlier: Path | None) -> None:
    """Measure latency over load, of Creek and of etcd, in about 20 minutes.

    Prints a table, and writes the figures as JSON, after each load, and a picture of them as SVG.

    \b
    Examples:
      python -m benchmarks.curve --quick
      python -m benchmarks.curve --out runs/curve
      python -m benchmarks.curve --from runs/curve/live-latency.json
    """
    if earlier is not None:
        figures = read(earlier)
        _make_sure_of(out)
    else:
        _make_sure_of(out)
        scale, step = (QUICK, LONG_STEP) if quick else (FULL, STEP)
        figures = begun(scale)
        for _ in measured(figures, scale, step):
            encoded = msgspec.json.format(msgspec.json.encode(figures))
            (out / FIGURES).write_bytes(encoded + b"\n")
    (out / PICTURE).write_text(curve_picture.svg(figures), encoding="utf-8")
    show(figures)
    click.echo(f"The picture: {out / PICTURE}")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.curve")
