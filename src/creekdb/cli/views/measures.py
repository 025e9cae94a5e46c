"""Progress of a load, and tables of latencies, measures and peak loads."""

from collections.abc import Iterable
from typing import Final

import click
from rich.progress import BarColumn
from rich.table import Table

from creekdb.cli.output import ProgressBar, new_table, pluralize, print_table
from creekdb.evaluation import PeakLoad
from creekdb.evaluation.measures import Measures, SimulatedLatency
from creekdb.load.measurement import (
    STRONG_STABLE,
    WEAK_TENTATIVE,
    LatencySummary,
    LoadMeter,
    LoadResult,
)

RECENT_RESPONSES: Final = 1000
"""Number of latest responses in the displayed median."""


class LoadProgress(ProgressBar):
    """Progress of a load, with its throughput and the median of its latest latencies."""

    def __init__(self, warm_up_s: float, duration_s: float) -> None:
        super().__init__(BarColumn(), "{task.description}", total=warm_up_s + duration_s)
        self._warm_up_s = warm_up_s

    def on_progress(self, elapsed_s: float, meter: LoadMeter) -> None:
        measured_s = elapsed_s - self._warm_up_s
        text = "warming up"
        if measured_s > 0:
            text = f"{measured_s:.0f} s  {meter.completed / measured_s:,.0f}/s"
        for name, kind in (("weak", WEAK_TENTATIVE), ("strong", STRONG_STABLE)):
            if recent := sorted(meter.latencies_ns[kind][-RECENT_RESPONSES:]):
                text += f"  {name} {recent[len(recent) // 2] / 1e6:.2f} ms"
        self.update(completed=elapsed_s, description=text)


def print_latencies(result: LoadResult) -> None:
    rows = [*result.latency_ms.items(), ("start delay", result.late_ms)]
    print_table(_latency_table((row for row in rows if row[1]), "mean", "p50", "p95", "p99", "max"))


def print_errors(result: LoadResult) -> None:
    if result.raised:
        click.echo(f"{pluralize(result.raised, 'operation')} raised an error")
    for reason, count in result.errors.items():
        click.echo(f"{pluralize(count, 'call')} without a response: {reason}")


def _latency_table(
    rows: Iterable[tuple[str, LatencySummary | SimulatedLatency | None]], *fields: str
) -> Table:
    """Return a table that fits into 80 columns even with latencies of minutes."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("latency in ms", min_width=17, no_wrap=True)
    for name in ("responses", *fields):
        table.add_column(name, justify="right", min_width=7, no_wrap=True)
    for label, latency in rows:
        answers = "0" if latency is None else f"{latency.answers:,}"
        values = (getattr(latency, field, None) for field in fields)
        table.add_row(
            label, answers, *(_NO_VALUE if each is None else format_ms(each) for each in values)
        )
    return table


def format_ms(ms: float) -> str:
    """Format milliseconds with three significant digits."""
    return f"{ms:.2f}" if ms < 10 else f"{ms:.1f}" if ms < 100 else f"{ms:,.0f}"


_NO_VALUE = "-"


def print_measures(measures: Measures) -> None:
    rows = [
        ("weak, tentative", measures.weak_tentative_ms),
        ("weak, final", measures.weak_stable_ms),
        ("strong, tentative", measures.strong_tentative_ms),
        ("strong, stable", measures.strong_stable_ms),
    ]
    withheld = [
        ("weak, withheld", measures.weak_speculated_ms),
        ("strong, withheld", measures.strong_speculated_ms),
    ]
    rows += [row for row in withheld if row[1]]
    print_table(_latency_table(rows, "mean", "p50", "p95", "p99"))
    print_table(_facts_table(measures))


def _facts_table(measures: Measures) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", min_width=18)
    table.add_column()
    executions = pluralize(measures.executions, "execution")
    rollbacks = pluralize(measures.rollbacks, "rollback")
    ratio = _format_optional(measures.execution_ratio, "{:.3f}")
    network = _format_optional(measures.network_utilisation, "{:.3%}")
    counts = f"{measures.weak} weak, {measures.strong} strong; {_response_counts(measures)}"
    for label, value in (
        ("operations", counts),
        ("throughput", _format_optional(measures.throughput_tps, "{:.0f} operations per second")),
        ("saturated", _saturated(measures)),
        ("accuracy", _accuracy(measures)),
        ("execution ratio", f"{ratio} ({executions}, {rollbacks})"),
        ("cores busy", _format_optional(measures.cpu_utilisation, "{:.2%}")),
        ("network busy", f"{network} ({pluralize(measures.messages, 'message')})"),
        ("rejected", _rejections(measures)),
        ("clock drift", _clock_drift(measures)),
        ("quiescent", _quiescence(measures)),
        ("trace hash", measures.trace_hash),
    ):
        if value:
            table.add_row(label, value)
    return table


def _format_optional(value: float | None, form: str) -> str:
    return _NO_VALUE if value is None else form.format(value)


def _accuracy(measures: Measures) -> str:
    text = _format_optional(measures.accuracy, "{:.2%} of first weak responses were final")
    if measures.warehouses is None or measures.exact_accuracy is None:
        return text
    return f"{text}; {measures.exact_accuracy:.2%} with order numbers"


def _response_counts(measures: Measures) -> str:
    lost = measures.weak + measures.strong - measures.answered
    counts = [f"{measures.answered} completed"]
    if lost:
        counts.append(f"{lost} without a response")
    if measures.gave_up:
        counts.append(pluralize(measures.gave_up, "client timeout"))
    if measures.unserved:
        possessive = "its" if measures.unserved == 1 else "their"
        counts.append(f"{measures.unserved} found {possessive} replica down")
    return ", ".join(counts)


def _saturated(measures: Measures) -> str:
    """Return an empty string for a closed loop, which cannot saturate."""
    if measures.saturated is None:
        return ""
    return f"{'yes' if measures.saturated else 'no'}, {measures.backlog} pending at the end"


def _rejections(measures: Measures) -> str:
    reasons = [f"{count} {reason}" for reason, count in measures.refused.items()]
    if measures.malformed:
        reasons.append(f"{measures.malformed} malformed")
    return ", ".join(reasons)


def _clock_drift(measures: Measures) -> str:
    ahead = measures.drift_us.items()
    return ", ".join(f"replica {replica} {us / 1_000_000:.1f} s ahead" for replica, us in ahead)


def _quiescence(measures: Measures) -> str:
    if measures.unsettled is not None:
        return f"no: {measures.unsettled}"
    committed = pluralize(measures.committed, "request")
    after_ms = measures.simulated_ms - measures.duration_ms
    return f"{after_ms:.0f} ms after the last call, {committed} committed"


def peak_table(peak: PeakLoad) -> Table:
    table = new_table(
        *("load", "done", "saturated", "backlog", "weak p50", "weak p99"),
        *("stable p50", "stable p99", "accuracy", "ratio", "cores"),
    )
    for each in peak.tried:
        table.add_row(
            f"{each.load_tps:.0f}",
            f"{each.throughput_tps:.0f}",
            "yes" if each.saturated else "no",
            str(each.backlog),
            *_percentiles(each.weak_tentative_ms),
            *_percentiles(each.strong_stable_ms),
            _format_optional(each.accuracy, "{:.1%}"),
            _format_optional(each.execution_ratio, "{:.2f}"),
            _format_optional(each.cpu_utilisation, "{:.1%}"),
        )
    return table


def _percentiles(latency: SimulatedLatency | None) -> tuple[str, str]:
    return ("-", "-") if latency is None else (f"{latency.p50:.2f}", f"{latency.p99:.2f}")
