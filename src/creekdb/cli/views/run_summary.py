"""Summary of a run as lines of text: its scenario, its faults and the verdicts."""

from collections.abc import Sequence
from textwrap import wrap

from rich.text import Text

from creekdb.checkers import Illegal, Inconclusive, Ok, Verdict
from creekdb.cli.output import pluralize, stdout_console
from creekdb.simulation.faults.fields import ROUNDED, format_duration, format_duration_rounded
from creekdb.simulation.faults.language import format_fault
from creekdb.simulation.kernel.scenario import Scenario
from creekdb.simulation.models.parameters import CpuModel, NetworkModel

INDENT = 11
SCENARIO_WIDTH_MIN = 20


def scenario_lines(scenario: Scenario) -> list[Text]:
    default = Scenario()
    facts = {
        "clients": _clients_text(scenario),
        "network": _network_text(scenario.network),
        "cores": _cores_text(scenario.cpu),
        "fsync": _range_text(scenario.disk.fsync_us_min, scenario.disk.fsync_us_max),
    }
    if scenario.clock != default.clock:
        skews = ", ".join(format_duration_rounded(each) for each in scenario.clock.skews_us)
        drifts = ", ".join(map(str, scenario.clock.drifts_ppm))
        texts = (skews and f"off by {skews}", drifts and f"drift {drifts} ppm")
        facts["clocks"] = "; ".join(filter(None, texts))
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


def _network_text(network: NetworkModel) -> str:
    text = f"{_range_text(network.latency_us_min, network.latency_us_max)} one way, "
    text += f"{network.bandwidth_bps // 1_000_000} Mbit/s"
    if not network.distances_us:
        return text
    distances = {each for row in network.distances_us for each in row if each}
    span = _range_text(min(distances, default=0), max(distances, default=0))
    return f"{text}; {network.region_count} regions, {span} apart"


def _cores_text(cpu: CpuModel) -> str:
    text = f"{cpu.cores}, {_microseconds_text(cpu.execution_us)} per execution"
    if cpu.access_us != CpuModel().access_us:
        text += f" and {_microseconds_text(cpu.access_us)} per register"
    return text if cpu.scale == 1 else f"{text}, scaled by {cpu.scale:g}"


def _microseconds_text(us: float) -> str:
    return format_duration(int(us)) if us == int(us) else f"{us:g}us"


def _faults_text(scenario: Scenario) -> str:
    """Return the faults that take effect, in the order of time."""
    faults = sorted(scenario.faults, key=lambda fault: fault.at_us)
    entries = [format_fault(each, ROUNDED) for each in faults if each.at_us <= scenario.duration_us]
    if late := len(faults) - len(entries):
        entries.append(f"({late} more after the end, not applied)")
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
    think = f"think time {format_duration(clients.think_us)}"
    return f"{clients.sessions} per replica{each}, {think}, {strong}"


def _range_text(low_us: int, high_us: int) -> str:
    if low_us == high_us:
        return format_duration(low_us)
    return f"{format_duration(low_us)} to {format_duration(high_us)}"


VERDICT_WIDTH_MIN, VERDICT_WIDTH_MAX = 20, 76


def is_legal(verdicts: Sequence[Verdict]) -> bool:
    """True if no verdict is illegal; an inconclusive verdict is not a violation."""
    return not any(isinstance(each, Illegal) for each in verdicts)


def verdict_lines(verdicts: Sequence[Verdict]) -> list[Text]:
    """Return the counts, the names of the checkers that passed, and every counterexample."""
    passed = [each.checker for each in verdicts if isinstance(each, Ok)]
    sign = ("✓ ", "green") if is_legal(verdicts) else ("✗ ", "red")
    inconclusive = [each for each in verdicts if isinstance(each, Inconclusive)]
    suffix = f", {len(inconclusive)} inconclusive" if inconclusive else ""
    lines = [Text.assemble(sign, f"{len(passed)} of {len(verdicts)} checkers passed{suffix}")]
    width = min(VERDICT_WIDTH_MAX, max(VERDICT_WIDTH_MIN, stdout_console().width - 2))
    names = ", ".join(name.replace("_", " ") for name in passed)
    lines += [Text(f"  {line}", style="dim") for line in wrap(names, width)]
    lines += [
        Text(f"unknown  {each.checker}: not checked, not a violation: {each.reason}", "yellow")
        for each in inconclusive
    ]
    lines += [Text(each.describe(), "red") for each in verdicts if isinstance(each, Illegal)]
    return lines
