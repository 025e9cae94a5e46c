"""A run as lines of text: its calls, responses and faults over time.

Every line is derived from the history and its scenario; crashes and restarts appear when they took
effect. The timeline suits runs of a few dozen operations; `creekdb.evaluation.measures` summarises
longer ones.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from rich.text import Text

from creekdb.history import (
    History,
    Operation,
    OperationRecord,
    Outcome,
    ResponseKind,
)
from creekdb.simulation.faults.fault_types import Crash, Cut, Die, Fault, Heal, Partition, Restart
from creekdb.simulation.faults.fields import ROUNDED
from creekdb.simulation.faults.language import format_fault
from creekdb.simulation.kernel.scenario import Scenario, ScriptedInvocation, scenario_from_config

KIND_STYLES = {
    ResponseKind.TENTATIVE: "yellow",
    ResponseKind.STABLE: "green",
    ResponseKind.FINAL: "blue",
}


PartitionGroups: TypeAlias = tuple[tuple[int, ...], ...]


class _TimelineRow(NamedTuple):
    """A call with its first response, or one later response. The cells follow time and replica."""

    at_us: int
    replica: int
    cells: list[Text]


class _TimelineEvent(NamedTuple):
    """A heading, and the changes that take effect with it."""

    at_us: int
    text: str
    groups: PartitionGroups | None = None
    stopped_replica: int | None = None
    started_replica: int | None = None


def call_text(operation: Operation) -> str:
    return " ".join((operation.name, *(_value_text(each) for each in operation.arguments)))


def outcome_text(outcome: Outcome) -> str:
    """Return the value, or a cross and the message of the error."""
    if outcome.error is None:
        return _value_text(outcome.value)
    kind, colon, message = outcome.error.partition(": ")
    return f"✗ {message if colon else kind}"


def labelled_call(strong: bool, operation: Operation, style: str = "") -> Text:
    """Return the consistency level and the call."""
    level = ("strong", "cyan") if strong else ("weak  ", "magenta")
    return Text.assemble(level, " ", (call_text(operation), style))


def aligned_lines(rows: Sequence[Sequence[Text]]) -> list[Text]:
    """Return each row as a line. A cell before another is as wide as the widest of its column."""
    for column in range(max(map(len, rows))):
        cells = [row[column] for row in rows if len(row) > column + 1]
        width = max(map(len, cells), default=0)
        for cell in cells:
            cell.pad_right(width - len(cell))
    lines = [Text("  ").join(row) for row in rows]
    for line in lines:
        line.rstrip()
    return lines


def timeline_lines(history: History) -> list[Text]:
    """Return calls and responses in the order of time, with faults as headings."""
    scenario = scenario_from_config(history.config)
    rows = [*_call_rows(history.operations), *_unserved_rows(history.operations, scenario)]
    titles = [f"{'':6} operation", "response", f"{'kind':5} {'after ms':>10}"]
    header, *texts = aligned_lines([[*map(Text, titles)], *(row.cells for row in rows)])
    names = " ".join(map(str, range(scenario.replicas)))
    lines = [Text(f"{'ms':>4}  {names}  {header}", style="dim")]
    lines.append(_heading(0, "all replicas are connected"))
    groups: PartitionGroups = ()
    down: set[int | None] = set()
    events = _timeline_events(history, scenario)
    entries: list[tuple[_TimelineEvent | _TimelineRow, Text]]
    entries = [*((event, Text()) for event in events), *zip(rows, texts, strict=True)]
    for each, text in sorted(entries, key=lambda entry: entry[0].at_us):
        if isinstance(each, _TimelineEvent):
            groups = groups if each.groups is None else each.groups
            down = (down | {each.stopped_replica}) - {each.started_replica}
            lines.append(_heading(each.at_us, each.text))
        else:
            links = _links_text(each.replica, groups, down, scenario.replicas)
            lines.append(Text.assemble((f"{each.at_us / 1000:4.0f}  ", "dim"), links, "  ", text))
    return lines


def _heading(at_us: int, text: str) -> Text:
    return Text.assemble((f"{at_us / 1000:4.0f}  ", "dim"), (f"── {text}", "bold"))


# --- parts of a line --------------------------------------------------------------------------


def _call_rows(records: Iterable[OperationRecord]) -> Iterator[_TimelineRow]:
    for record in records:
        if not record.responses:
            yield _missing_row(record.invoked_us, record, "no response")
        for number, response in enumerate(record.responses):
            kind, after_ms = response.kind, (response.at_us - record.invoked_us) / 1000
            if kind is ResponseKind.FINAL and not response.changed:
                continue
            cells = [
                labelled_call(record.strong, record.operation, "dim" if number else ""),
                Text(outcome_text(response.outcome), style="bold"),
                Text.assemble((f"{kind.value:9} ", KIND_STYLES[kind]), (f"{after_ms:6.2f}", "dim")),
            ]
            at_us = response.at_us if number else record.invoked_us
            yield _TimelineRow(at_us, record.replica, cells)


def _unserved_rows(
    records: Iterable[OperationRecord], scenario: Scenario
) -> Iterator[_TimelineRow]:
    """Yield the scripted calls without a record, because their replica was down."""
    served = Counter(
        (each.invoked_us, each.replica, each.strong, call_text(each.operation)) for each in records
    )
    for call in scenario.script:
        key = (call.at_us, call.replica, call.strong, call_text(call.operation))
        served[key] -= 1
        if served[key] < 0:
            yield _missing_row(call.at_us, call, f"replica {call.replica} is down")


def _missing_row(
    at_us: int, call: OperationRecord | ScriptedInvocation, reason: str
) -> _TimelineRow:
    cells = [labelled_call(call.strong, call.operation), Text(reason, style="red")]
    return _TimelineRow(at_us, call.replica, cells)


def _links_text(at: int, groups: PartitionGroups, down: set[int | None], replicas: int) -> Text:
    """Return the replicas in a row; a cross separates neighbours in different groups."""
    group_of = {replica: number for number, group in enumerate(groups) for replica in group}
    text = Text()
    for replica in range(replicas):
        if replica:
            linked = group_of.get(replica) == group_of.get(replica - 1)
            text.append("─" if linked else "×", style="dim" if linked else "red")
        mark = "○" if replica in down else "●" if replica == at else "·"
        text.append(mark.ljust(len(str(replica)), "─"), style="bold" if replica == at else "dim")
    return text


# --- headings ---------------------------------------------------------------------------------


def _timeline_events(history: History, scenario: Scenario) -> list[_TimelineEvent]:
    """Return the events of replicas and links, in the order of time."""
    end_us = scenario.duration_us
    ordered = sorted(scenario.faults, key=lambda fault: fault.at_us)
    faults = [each for each in ordered if each.at_us <= end_us]
    events = [*_fault_events(faults, scenario.replicas, history.operations)]
    events += _crash_events(history, {(each.at_us, each.stopped_replica) for each in events})
    if not _is_healed_at_end(faults):
        text = "the end: clients stop, and all faults are healed"
        events.append(_TimelineEvent(end_us, text, groups=()))
    # Restarts caused by the end come after its heading.
    return sorted(events, key=lambda each: (each.at_us, each.started_replica is not None))


def _is_healed_at_end(faults: Sequence[Fault]) -> bool:
    """True if the faults certainly leave nothing to heal at the end."""
    links_only = all(isinstance(each, (Partition, Cut, Heal)) for each in faults)
    return not faults or (links_only and isinstance(faults[-1], Heal))


def _crash_events(
    history: History, deaths: set[tuple[int, int | None]]
) -> Iterator[_TimelineEvent]:
    """Yield crashes and restarts of the logs; deaths have their own heading."""
    started: set[int] = set()
    for log in sorted(history.logs, key=lambda log: (log.replica, log.incarnation)):
        if log.replica in started:
            text = f"replica {log.replica} restarts"
            yield _TimelineEvent(log.started_us, text, started_replica=log.replica)
        started.add(log.replica)
        if log.crashed_us is not None and (log.crashed_us, log.replica) not in deaths:
            text = f"replica {log.replica} crashes (○)"
            yield _TimelineEvent(log.crashed_us, text, stopped_replica=log.replica)


def _fault_events(
    faults: Iterable[Fault], replicas: int, records: Sequence[OperationRecord]
) -> Iterator[_TimelineEvent]:
    """Yield the headings of the faults, except crashes and restarts, which the logs contain."""
    for fault in faults:
        groups: PartitionGroups | None = None
        stopped_replica: int | None = None
        match fault:
            case Crash(writing=False) | Restart():
                continue
            case Partition(groups=groups):
                text = _partition_text(groups, replicas)
            case Heal(at_us=at_us):
                groups = ()
                pending = [
                    call_text(each.operation) for each in records if _is_pending(each, at_us)
                ]
                suffix = f"; not yet stable: {', '.join(pending)}" if pending else ""
                text = f"the network heals{suffix}"
            case Cut(sender=sender, receiver=receiver):
                text = f"messages from {sender} to {receiver} are dropped"
            case Die(replica=replica, telling=True):
                text = f"replica {replica} will die after its next ballot promise"
            case Die(replica=stopped_replica):
                text = f"replica {stopped_replica} dies (○) and never restarts"
            case Crash(replica=replica):
                text = f"replica {replica} will crash at its next disk write"
            case _:
                text = format_fault(fault, ROUNDED)
        yield _TimelineEvent(fault.at_us, text, groups, stopped_replica)


def _partition_text(groups: PartitionGroups, replicas: int) -> str:
    grouped = {replica for group in groups for replica in group}
    rest = tuple(each for each in range(replicas) if each not in grouped)
    sides = {each: ",".join(map(str, each)) for each in (*groups, rest) if each}
    largest = [text for group, text in sides.items() if len(group) > replicas // 2]
    majority = f"only {largest[0]} has a majority" if largest else "no side has a majority"
    return f"the network splits into {' and '.join(sides.values())}; {majority}"


def _is_pending(record: OperationRecord, at_us: int) -> bool:
    """True if a strong call had no stable response at this time."""
    stable = record.stable
    answered = stable is not None and stable.at_us < at_us
    return record.strong and record.invoked_us < at_us and not answered


def _value_text(value: Any) -> str:
    if type(value) is str:
        return value
    if type(value) is tuple:
        return f"({', '.join(map(_value_text, value))})"
    return repr(value)
