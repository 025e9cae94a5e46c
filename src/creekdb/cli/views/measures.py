"""What a load took, as a table for the terminal.

The measures of a run as tables for people.

The search for a peak as a table for people.
"""

import click
from rich.table import Table

from creekdb.cli.output import counted, show_table
from creekdb.evaluation import Peak
from creekdb.evaluation.measures import Latency, Measures
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


_NOTHING = "-"


def measures_table(measures: Measures) -> None:
    show_table(_latencies(measures))
    show_table(_facts(measures))


def _latencies(measures: Measures) -> Table:
    table = latencies_table("answers", "mean", "p50", "p95", "p99")
    for label, latency in (
        ("weak, tentative", measures.weak_tentative_ms),
        ("weak, final", measures.weak_stable_ms),
        ("strong, tentative", measures.strong_tentative_ms),
        ("strong, stable", measures.strong_stable_ms),
        ("weak, withheld", measures.weak_speculated_ms),
        ("strong, withheld", measures.strong_speculated_ms),
    ):
        if latency is None and label.endswith("withheld"):
            continue
        table.add_row(label, f"{latency.answers if latency else 0:,}", *_milliseconds(latency))
    return table


def _milliseconds(latency: Latency | None) -> tuple[str, ...]:
    if latency is None:
        return (_NOTHING,) * 4
    return tuple(map(milliseconds, (latency.mean, latency.p50, latency.p95, latency.p99)))


def _facts(measures: Measures) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", min_width=18)
    table.add_column()
    for label, value in (
        ("operations", f"{measures.weak} weak, {measures.strong} strong; {_fate(measures)}"),
        ("throughput", _or_nothing(measures.throughput_tps, "{:.0f} operations per second")),
        ("saturated", _saturated(measures)),
        ("accuracy", _accuracy(measures)),
        (
            "execution ratio",
            _or_nothing(measures.execution_ratio, "{:.3f}") + _executions(measures),
        ),
        ("cores busy", _or_nothing(measures.cpu_utilisation, "{:.2%}")),
        ("network busy", _or_nothing(measures.network_utilisation, "{:.3%}") + _messages(measures)),
        ("refused", _refused(measures)),
        ("clocks ahead", _drift(measures)),
        ("came to rest", _rest(measures)),
        ("trace hash", measures.trace_hash),
    ):
        if value:
            table.add_row(label, value)
    return table


def _or_nothing(value: float | None, form: str) -> str:
    return _NOTHING if value is None else form.format(value)


def _accuracy(measures: Measures) -> str:
    text = _or_nothing(measures.accuracy, "{:.2%} of weak first answers were final")
    if measures.warehouses is None or measures.exact_accuracy is None:
        return text
    return f"{text}; {measures.exact_accuracy:.2%} counting the numbers of orders"


def _fate(measures: Measures) -> str:
    lost = measures.weak + measures.strong - measures.answered
    fates = [f"{measures.answered} answered"]
    if lost:
        fates.append(f"{lost} never")
    if measures.gave_up:
        fates.append(f"{counted(measures.gave_up, 'time')} a client gave up")
    if measures.unserved:
        fates.append(f"{measures.unserved} found {_its(measures.unserved)} replica down")
    return ", ".join(fates)


def _saturated(measures: Measures) -> str:
    """Nothing in a closed loop, where clients wait."""
    if measures.saturated is None:
        return ""
    return f"{'yes' if measures.saturated else 'no'}, {measures.backlog} not done in the end"


def _its(number: int) -> str:
    return "its" if number == 1 else "their"


def _executions(measures: Measures) -> str:
    return (
        f" ({counted(measures.executions, 'execution')}, {counted(measures.rollbacks, 'rollback')})"
    )


def _messages(measures: Measures) -> str:
    return f" ({counted(measures.messages, 'message')})"


def _refused(measures: Measures) -> str:
    reasons = [f"{count} {reason}" for reason, count in measures.refused.items()]
    if measures.malformed:
        reasons.append(f"{measures.malformed} malformed")
    return ", ".join(reasons)


def _drift(measures: Measures) -> str:
    ahead = measures.drift_us.items()
    return ", ".join(f"replica {replica} by {us / 1_000_000:.1f} s" for replica, us in ahead)


def _rest(measures: Measures) -> str:
    if measures.unsettled is not None:
        return f"no: {measures.unsettled}"
    committed = counted(measures.committed, "request")
    after_ms = measures.simulated_ms - measures.duration_ms
    return f"{after_ms:.0f} ms after clients stopped, {committed} committed"


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
