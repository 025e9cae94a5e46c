"""The search for a peak as a table for people."""

from rich.table import Table

from creekdb.evaluation import Latency, Peak


def peak_table(peak: Peak) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in (
        "load",
        "done",
        "saturated",
        "backlog",
        "weak p50",
        "weak p99",
        "stable p50",
        "stable p99",
        "accuracy",
        "ratio",
        "cores",
    ):
        table.add_column(name, justify="right")
    for each in peak.tried:
        table.add_row(
            f"{each.load_tps:.0f}",
            f"{each.throughput_tps:.0f}",
            "yes" if each.saturated else "no",
            str(each.backlog),
            *_percentiles(each.weak_tentative_ms),
            *_percentiles(each.strong_stable_ms),
            _percent(each.accuracy),
            "-" if each.execution_ratio is None else f"{each.execution_ratio:.2f}",
            _percent(each.cpu_utilisation),
        )
    return table


def _percentiles(latency: Latency | None) -> tuple[str, str]:
    return ("-", "-") if latency is None else (f"{latency.p50:.2f}", f"{latency.p99:.2f}")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
