"""What a load took, as a table for the terminal."""

import click
from rich.table import Table

from creekdb.cli.output import show_table
from creekdb.cli.words import counted
from creekdb.load.measurement import Result


def show_latencies(result: Result) -> None:
    table = latencies_table("answers", "mean", "p50", "p95", "p99", "max")
    rows = [*result.latency_ms.items(), ("asked late by", result.late_ms)]
    for kind, each in rows:
        if each is not None:
            numbers = (each.mean, each.p50, each.p95, each.p99, each.max)
            table.add_row(kind, f"{each.answers:,}", *map(milliseconds, numbers))
    show_table(table)


def show_errors(result: Result) -> None:
    if result.raised:
        click.echo(f"{counted(result.raised, 'operation')} answered with an error")
    for reason, count in result.errors.items():
        click.echo(f"{counted(count, 'call')} without an answer: {reason}")


def latencies_table(*columns: str) -> Table:
    """It fits into 80 columns, also where somebody waited for minutes."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("latency in ms", min_width=17, no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", min_width=7, no_wrap=True)
    return table


def milliseconds(ms: float) -> str:
    """With as many digits as mean something."""
    return f"{ms:.2f}" if ms < 10 else f"{ms:.1f}" if ms < 100 else f"{ms:,.0f}"
