"""A scenario in a few lines: the cluster, what differs from the usual, and its faults.

Verdicts as lines of text, and what they mean for the exit code.
"""

from collections.abc import Sequence
from textwrap import wrap

from rich.text import Text

from creekdb.checkers import Illegal, Inconclusive, Ok, Verdict
from creekdb.cli.output import pluralize, stdout_console
from creekdb.simulation.faults.language import (
    format_duration,
    format_duration_rounded,
    format_fault_rounded,
)
from creekdb.simulation.kernel.scenario import Scenario
from creekdb.simulation.models.parameters import CpuModel

INDENT = 11
SCENARIO_WIDTH_MIN = 20


def scenario_lines(scenario: Scenario) -> list[Text]:
    usual = Scenario()
    network = scenario.network
    facts = {
        "clients": _clients_text(scenario),
        "network": f"{_range_text(network.latency_us_min, network.latency_us_max)} "
        f"one way, {network.bandwidth_bps // 1_000_000} Mbit/s",
        "cores": _cores_text(scenario.cpu),
        "fsync": _range_text(scenario.disk.fsync_us_min, scenario.disk.fsync_us_max),
    }
    if scenario.clock != usual.clock:
        skews = (format_duration_rounded(each) for each in scenario.clock.skews_us)
        drifts = ", ".join(map(str, scenario.clock.drifts_ppm))
        facts["clocks"] = f"off by {', '.join(skews)}; drift {drifts} ppm"
    if scenario.settings:
        facts["settings"] = ", ".join(f"{name} {n}" for name, n in scenario.settings.items())
    facts["faults"] = _faults_text(scenario)
    lines = [
        Text.assemble(
            (scenario.scheme, "bold"),
            f" on {pluralize(scenario.replicas, 'replica')}, data type {scenario.datatype}, "
            f"{format_duration(scenario.duration_us)}, seed {scenario.seed}",
        )
    ]
    width = max(SCENARIO_WIDTH_MIN, stdout_console().width - INDENT)
    for name, fact in facts.items():
        first, *rest = wrap(fact, width)
        lines.append(Text.assemble((f"  {name:9}", "dim"), first))
        lines += [Text(f"{'':{INDENT}}{line}") for line in rest]
    return lines


def _cores_text(cpu: CpuModel) -> str:
    each = f"{cpu.cores}, {_microseconds_text(cpu.execution_us)} an execution"
    if cpu.access_us != CpuModel().access_us:
        each += f" and {_microseconds_text(cpu.access_us)} a register"
    return each if cpu.scale == 1 else f"{each}, {cpu.scale:g} times"


def _microseconds_text(us: float) -> str:
    return format_duration(int(us)) if us == int(us) else f"{us:g}us"


def _faults_text(scenario: Scenario) -> str:
    """Those that happen, in the order of time."""
    faults = sorted(scenario.faults, key=lambda fault: fault.at_us)
    entries = [format_fault_rounded(each) for each in faults if each.at_us <= scenario.duration_us]
    if late := len(faults) - len(entries):
        entries.append(f"({late} more would come after the end, when all is healed)")
    return "; ".join(entries) or "none"


def _clients_text(scenario: Scenario) -> str:
    clients = scenario.clients
    strong = f"{clients.strong_share:.0%} strong"
    if clients.strong_kinds:
        strong = f"{', '.join(clients.strong_kinds)} strong"
    if clients.rate_per_second:
        return f"{clients.rate_per_second * scenario.replicas:.0f} operations per second, {strong}"
    if not clients.sessions:
        return pluralize(len(scenario.script), "scripted call")
    limit = clients.operations_per_session
    each = f", {pluralize(limit, 'operation')} each" if limit else ""
    think = f"thinking {format_duration(clients.think_us)}"
    return f"{clients.sessions} at each replica{each}, {think}, {strong}"


def _range_text(low_us: int, high_us: int) -> str:
    if low_us == high_us:
        return format_duration(low_us)
    return f"{format_duration(low_us)} to {format_duration(high_us)}"


VERDICT_WIDTH_MIN, VERDICT_WIDTH_MAX = 20, 76


def is_legal(verdicts: Sequence[Verdict]) -> bool:
    """Unknown is no accusation: the history does not tell."""
    return not any(isinstance(each, Illegal) for each in verdicts)


def verdict_lines(verdicts: Sequence[Verdict]) -> list[Text]:
    """What was found, with its counterexample, and the names of the checkers that found nothing."""
    good = [each.checker for each in verdicts if isinstance(each, Ok)]
    sign = ("✓ ", "green") if is_legal(verdicts) else ("✗ ", "red")
    unsure = [each for each in verdicts if isinstance(each, Inconclusive)]
    cannot = f", {len(unsure)} cannot tell" if unsure else ""
    lines = [Text.assemble(sign, f"{len(good)} of {len(verdicts)} checkers say ok{cannot}")]
    width = min(VERDICT_WIDTH_MAX, max(VERDICT_WIDTH_MIN, stdout_console().width - 2))
    names = ", ".join(name.replace("_", " ") for name in good)
    lines += [Text(f"  {line}", style="dim") for line in wrap(names, width)]
    lines += [
        Text(f"unknown  {each.checker}: not checked, which is no fault: {each.reason}", "yellow")
        for each in unsure
    ]
    lines += [Text(each.describe(), "red") for each in verdicts if isinstance(each, Illegal)]
    return lines
