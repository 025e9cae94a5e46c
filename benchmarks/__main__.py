"""The command `python -m benchmarks [NAMES] [--quick] [--json FILE]`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill

import click
import msgspec
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from benchmarks.registry import BENCHMARKS, LONG_BENCHMARKS
from benchmarks.result import Result
from benchmarks.scale import FULL, QUICK, Scale
from creekdb.execution.python_runtime import build_kind

STYLES = {"ok": "green", "missed": "bold red", "reported": "dim", "not measured": "yellow"}


def measure(names: tuple[str, ...], scale: Scale) -> Iterator[Result]:
    selected = [(BENCHMARKS | LONG_BENCHMARKS)[name] for name in names or BENCHMARKS]
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with progress:
        task = progress.add_task("", total=sum(each.results for each in selected))
        for benchmark in selected:
            progress.update(task, description=benchmark.name)
            for result in benchmark.measure(scale):
                progress.advance(task)
                yield result


def table(results: list[Result]) -> Table:
    rich_table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 1, 1), collapse_padding=True)
    rich_table.add_column("measurement", ratio=1)
    for heading in ("ratio", "bar"):
        rich_table.add_column(heading, justify="right", no_wrap=True)
    rich_table.add_column("verdict", no_wrap=True)
    for result in results:
        what = Text.assemble(result.what, "\n", (result.explanation, "dim"))
        sign = "=" if result.exact else "≤"
        bar = "" if result.bar is None else f"{sign} {result.bar:g} {result.unit}"
        style = STYLES[result.verdict]
        rich_table.add_row(what, _number(result), bar, Text(result.verdict, style))
    return rich_table


def _number(result: Result) -> str:
    if result.value is None:
        return "–"
    digits = 0 if result.exact or result.value >= 100 else 2
    return f"{result.value:,.{digits}f} {result.unit}"


def as_dicts(results: list[Result]) -> list[dict[str, object]]:
    return [{**msgspec.structs.asdict(each), "verdict": each.verdict} for each in results]


NAMES = "\n".join(
    fill(f"{title}: {', '.join(benchmarks)}", 58, break_on_hyphens=False)
    for title, benchmarks in (("Names", BENCHMARKS), ("Only by name", LONG_BENCHMARKS))
)


def _show(results: list[Result], json_path: Path | None) -> None:
    Console().print(table(results))
    click.echo(f"Creek ran {build_kind()}.")
    if json_path is not None:
        json_path.write_bytes(msgspec.json.format(msgspec.json.encode(as_dicts(results))) + b"\n")


@click.command(epilog=f"\b\n{NAMES}", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument(
    "names", nargs=-1, type=click.Choice([*BENCHMARKS, *LONG_BENCHMARKS]), metavar="[NAME]..."
)
@click.option("--quick", is_flag=True, help="Use smaller sizes and fewer rounds.")
@click.option(
    "--json", "json_path", type=click.Path(path_type=Path), help="Also write the results to FILE."
)
def main(names: tuple[str, ...], quick: bool, json_path: Path | None) -> None:
    """Run all short benchmarks, or those with these names. Exits with 1 if a result misses its bar.
    A comparison with a program that is not installed is listed as not measured. If a benchmark
    fails, the results of the earlier ones are shown.

    Example: python -m benchmarks order heal --quick
    """
    results: list[Result] = []
    try:
        results.extend(measure(names, QUICK if quick else FULL))
    finally:
        _show(results, json_path)
    not_measured = [result.what for result in results if result.value is None]
    if not_measured:
        click.echo(f"not measured: {'; '.join(not_measured)}", err=True)
    missed = [result.what for result in results if result.missed]
    if missed:
        click.echo(f"missed: {'; '.join(missed)}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
