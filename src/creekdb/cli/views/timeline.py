"""A run as lines of text: its calls, responses and faults over time, and the final order.

Every line is derived from the history and its scenario; crashes and restarts appear when they took
effect. The final responses come from a sequential replay of the committed order. Clients receive
them as the stable response of a strong call and the final response of a weak one. The views suit
runs of a few dozen operations; `creekdb.evaluation.measures` summarises longer ones.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from rich.text import Text

from creekdb.checkers import RunIndex
from creekdb.history import (
    History,
    Operation,
    OperationRecord,
    Outcome,
    Request,
    ResponseKind,
    ResponseRecord,
)
from creekdb.server.runtime.config import load_datatype
from creekdb.simulation.faults.fault_types import Crash, Cut, Die, Fault, Heal, Partition, Restart
from creekdb.simulation.faults.fields import ROUNDED
from creekdb.simulation.faults.language import format_fault
from creekdb.simulation.kernel.scenario import Scenario, scenario_from_config


class CommittedOperation(NamedTuple):
    """One request of `committed`, with its position from 0.

    `record` is None for a request that a replica issued itself, such as a no-op.
    """

    position: int
    request: Request
    outcome: Outcome
    record: OperationRecord | None

    @property
    def first_response(self) -> ResponseRecord | None:
        """First response to the client, or None."""
        responses = self.record.responses if self.record is not None else ()
        return responses[0] if responses else None

    @property
    def changed(self) -> bool:
        """True if the first response differs from the final one."""
        first = self.first_response
        return first is not None and not first.outcome.same_as(self.outcome)


def committed_operations(history: History) -> list[CommittedOperation]:
    """Return the committed operations up to the first position that no log contains."""
    datatype = load_datatype(history.datatype)
    run = RunIndex(history, datatype)
    machine = datatype.sequential()
    records = {each.id: each for each in history.operations if run.position_of(each) is not None}
    finals: list[CommittedOperation] = []
    for position, dot in enumerate(run.committed):
        request = run.request(dot) if dot is not None else None
        if request is None:
            break
        finals.append(
            CommittedOperation(position, request, machine.apply(request), records.get(request.id))
        )
    return finals


KIND_STYLES = {
    ResponseKind.TENTATIVE: "yellow",
    ResponseKind.STABLE: "green",
    ResponseKind.FINAL: "blue",
}


PartitionGroups: TypeAlias = tuple[tuple[int, ...], ...]


class _TimelineRow(NamedTuple):
    """A call with its first response, or one later response.

    `missing` states why there is no response.
    """

    at_us: int
    replica: int
    operation: Operation
    strong: bool
    response: ResponseRecord | None = None
    after_us: int = 0
    is_later_response: bool = False
    missing: str = ""


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


def timeline_lines(history: History) -> list[Text]:
    """Return calls and responses in the order of time, with faults as headings."""
    scenario = scenario_from_config(history.config)
    rows = [*_call_rows(history.operations), *_unserved_rows(history.operations, scenario)]
    call_width, response_width = _widths((row.operation, row.response) for row in rows)
    names = " ".join(map(str, range(scenario.replicas)))
    columns = f"{'operation':{call_width}}  {'response':{response_width}}"
    header = f"{'ms':>4}  {names}  {'':6} {columns}  {'kind':5} {'after ms':>10}"
    lines = [Text(header, style="dim"), _heading(0, "all replicas are connected")]
    groups: PartitionGroups = ()
    down: set[int | None] = set()
    entries: list[_TimelineEvent | _TimelineRow] = [*_timeline_events(history, scenario), *rows]
    for each in sorted(entries, key=lambda each: each.at_us):
        if isinstance(each, _TimelineEvent):
            groups = groups if each.groups is None else each.groups
            down = (down | {each.stopped_replica}) - {each.started_replica}
            lines.append(_heading(each.at_us, each.text))
        else:
            links = _links_text(each.replica, groups, down, scenario.replicas)
            lines.append(_row_line(each, links, call_width, response_width))
    return lines


def committed_order_lines(
    finals: Sequence[CommittedOperation], remark: Callable[[CommittedOperation], Text]
) -> list[Text]:
    """Return the final order, with the call order and the first response of each operation."""
    records = [each.record for each in finals if each.record is not None]
    records.sort(key=lambda record: record.invoked_us)
    call_numbers = {record.id: number for number, record in enumerate(records, start=1)}
    call_width = _widths((each.request.operation, each.first_response) for each in finals)[0]
    first_width = max([5, *(len(_first_response_text(each)) for each in finals)])
    last_width = max([5, *(len(outcome_text(each.outcome)) for each in finals)])
    columns = f"{'operation':{call_width}}  {'first':{first_width}}  final"
    lines = [Text(f"order  call  {'':6} {columns}", style="dim")]
    for each in finals:
        first = _first_response_text(each)
        line = Text(f"{each.position + 1:>5} {call_numbers.get(each.request.id, ''):>5}  ")
        line.append_text(_consistency_text(each.request.strong))
        line.append(f" {call_text(each.request.operation):{call_width}}  ")
        line.append(first, style="strike dim" if each.changed else "")
        line.append(" " * (first_width - len(first) + 2))
        line.append(f"{outcome_text(each.outcome):{last_width}}  ")
        line.append_text(remark(each))
        line.rstrip()
        lines.append(line)
    return lines


def _first_response_text(final: CommittedOperation) -> str:
    return "" if final.first_response is None else outcome_text(final.first_response.outcome)


def _heading(at_us: int, text: str) -> Text:
    return Text.assemble((f"{at_us / 1000:4.0f}  ", "dim"), (f"── {text}", "bold"))


# --- parts of a line --------------------------------------------------------------------------


def _call_rows(records: Iterable[OperationRecord]) -> Iterable[_TimelineRow]:
    for record in records:
        call = _TimelineRow(record.invoked_us, record.replica, record.operation, record.strong)
        if not record.responses:
            yield call._replace(missing="no response")
        for number, response in enumerate(record.responses):
            if response.kind is ResponseKind.FINAL and not response.changed:
                continue
            after_us = response.at_us - record.invoked_us
            at_us = response.at_us if number else record.invoked_us
            yield call._replace(
                at_us=at_us, response=response, after_us=after_us, is_later_response=number > 0
            )


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
            row = _TimelineRow(call.at_us, call.replica, call.operation, call.strong)
            yield row._replace(missing=f"replica {call.replica} is down")


def _widths(pairs: Iterable[tuple[Operation, ResponseRecord | None]]) -> tuple[int, int]:
    """Return the widths of the columns for calls and for responses."""
    pairs = list(pairs)
    return (
        max([9, *(len(call_text(operation)) for operation, _ in pairs)]),
        max([8, *(len(outcome_text(response.outcome)) for _, response in pairs if response)]),
    )


def _row_line(row: _TimelineRow, links: Text, call_width: int, response_width: int) -> Text:
    line = Text.assemble((f"{row.at_us / 1000:4.0f}  ", "dim"), links, "  ")
    line.append_text(_consistency_text(row.strong))
    line.append(
        f" {call_text(row.operation):{call_width}}  ", "dim" if row.is_later_response else ""
    )
    if row.response is None:
        line.append(row.missing, style="red")
        return line
    style = KIND_STYLES[row.response.kind]
    line.append(f"{outcome_text(row.response.outcome):{response_width}}  ", style="bold")
    line.append(f"{row.response.kind.value:9} ", style=style)
    line.append(f"{row.after_us / 1000:6.2f}", style="dim")
    return line


def _consistency_text(strong: bool) -> Text:
    return Text("strong", style="cyan") if strong else Text("weak  ", style="magenta")


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
    faults = sorted(
        (each for each in scenario.faults if each.at_us <= end_us), key=lambda each: each.at_us
    )
    events = [
        event
        for fault in faults
        if (event := _fault_event(fault, scenario, history.operations)) is not None
    ]
    deaths = {
        (each.at_us, each.replica) for each in faults if isinstance(each, Die) and not each.telling
    }
    events += _crash_events(history, deaths)
    if not _is_healed_at_end(faults):
        # Sorting is stable, so restarts caused by the end come after its heading.
        before = [each for each in events if each.started_replica is None or each.at_us < end_us]
        after = [each for each in events if each not in before]
        end = _TimelineEvent(end_us, "the end: clients stop, and all faults are healed", groups=())
        events = [*before, end, *after]
    return sorted(events, key=lambda each: each.at_us)


def _is_healed_at_end(faults: Sequence[Fault]) -> bool:
    """True if the faults certainly leave nothing to heal at the end."""
    links_only = all(isinstance(each, (Partition, Cut, Heal)) for each in faults)
    return not faults or (links_only and isinstance(faults[-1], Heal))


def _crash_events(history: History, deaths: set[tuple[int, int]]) -> Iterator[_TimelineEvent]:
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


def _fault_event(
    fault: Fault, scenario: Scenario, records: Iterable[OperationRecord]
) -> _TimelineEvent | None:
    """Return the heading of a fault, or None for crashes and restarts, which the logs contain."""
    event = _TimelineEvent(fault.at_us, format_fault(fault, ROUNDED))
    match fault:
        case Partition(groups=groups):
            text = _partition_text(groups, scenario.replicas)
            return event._replace(text=text, groups=groups)
        case Heal(at_us=at_us):
            pending = [call_text(each.operation) for each in records if _awaits_stable(each, at_us)]
            suffix = f"; not yet stable: {', '.join(pending)}" if pending else ""
            return event._replace(text=f"the network heals{suffix}", groups=())
        case Cut(sender=sender, receiver=receiver):
            return event._replace(text=f"messages from {sender} to {receiver} are dropped")
        case Die(replica=replica, telling=True):
            text = f"replica {replica} will die after its next ballot promise"
            return event._replace(text=text)
        case Die(replica=replica):
            text = f"replica {replica} dies (○) and never restarts"
            return event._replace(text=text, stopped_replica=replica)
        case Crash(replica=replica, writing=True):
            return event._replace(text=f"replica {replica} will crash at its next disk write")
        case Crash() | Restart():
            return None
        case _:
            return event


def _partition_text(groups: PartitionGroups, replicas: int) -> str:
    grouped = {replica for group in groups for replica in group}
    rest = tuple(each for each in range(replicas) if each not in grouped)
    sides = {each: ",".join(map(str, each)) for each in (*groups, rest) if each}
    largest = [text for group, text in sides.items() if len(group) > replicas // 2]
    majority = f"only {largest[0]} has a majority" if largest else "no side has a majority"
    return f"the network splits into {' and '.join(sides.values())}; {majority}"


def _awaits_stable(record: OperationRecord, at_us: int) -> bool:
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
