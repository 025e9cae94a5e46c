"""What a load took, as a table for the terminal."""

from rich.table import Table

from creek.cli.output import show_table
from creek.load.result import Result


def show_latencies(result: Result) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("latency in ms", min_width=18)
    for name in ("answers", "mean", "p50", "p95", "p99", "max"):
        table.add_column(name, justify="right", min_width=9)
    rows = [*result.latency_ms.items(), ("asked too late by", result.late_ms)]
    for kind, each in rows:
        if each is not None:
            numbers = (each.mean, each.p50, each.p95, each.p99, each.max)
            table.add_row(kind, str(each.answers), *(f"{number:.2f}" for number in numbers))
    show_table(table)
