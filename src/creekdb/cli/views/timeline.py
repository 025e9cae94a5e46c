"""How each operation was finally ordered, and what it finally answered.

Read off a history alone: the committed order, replayed by the data type run sequentially. A strong
operation's client is told the same in its stable answer, a weak one's in its final answer.

A run as lines of text: who asked what where, and what was answered when.

Every line is derived from the history and the scenario in it: crashes and restarts when they
happened, not when they were asked for. Meant for runs of a few dozen operations; longer ones are
summed up in `creekdb.evaluation.measures`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from rich.text import Text

from creekdb.checkers import RunIndex
from creekdb.evaluation.experiment import resolve_datatype
from creekdb.history import (
    Dot,
    History,
    Operation,
    OperationRecord,
    Outcome,
    Request,
    ResponseKind,
    ResponseRecord,
)
from creekdb.simulation.faults.fault_types import Crash, Cut, Die, Fault, Heal, Partition, Restart
from creekdb.simulation.faults.language import format_fault_rounded
from creekdb.simulation.kernel.scenario import Scenario, scenario_from_config


class CommittedOperation(NamedTuple):
    """One request of `committed`, whose places count from 0. Without a `record` it is a replica's
    own, such as a no-op."""

    position: int
    request: Request
    outcome: Outcome
    record: OperationRecord | None

    @property
    def first_response(self) -> ResponseRecord | None:
        """The first answer that its client got."""
        return self.record.answers[0] if self.record is not None and self.record.answers else None

    @property
    def changed(self) -> bool:
        """Is the first answer another than the final one?"""
        return self.first_response is not None and not self.first_response.outcome.same_as(
            self.outcome
        )


def committed_operations(history: History) -> list[CommittedOperation]:
    """`committed`, up to the first place of which no log tells."""
    datatype = resolve_datatype(history.datatype)
    run = RunIndex(history, datatype)
    machine = datatype.sequential()
    records = _committed_records(run)
    finals: list[CommittedOperation] = []
    for place, dot in enumerate(run.committed):
        request = run.request(dot) if dot is not None else None
        if request is None:
            break
        finals.append(
            CommittedOperation(place, request, machine.apply(request), records.get(request.id))
        )
    return finals


def _committed_records(run: RunIndex) -> dict[Dot, OperationRecord]:
    return {
        record.id: record
        for record in run.history.operations
        if run.position_of(record) is not None
    }


KIND_STYLES = {
    ResponseKind.TENTATIVE: "yellow",
    ResponseKind.STABLE: "green",
    ResponseKind.FINAL: "blue",
}


PartitionGroups: TypeAlias = tuple[tuple[int, ...], ...]


class _TimelineRow(NamedTuple):
    """A call with its first answer, or a later answer. Without one, `missing` says why."""

    at_us: int
    replica: int
    operation: Operation
    strong: bool
    response: ResponseRecord | None = None
    after_us: int = 0
    is_later_response: bool = False
    missing: str = ""


class _TimelineEvent(NamedTuple):
    """A heading, and what is different from then on."""

    at_us: int
    text: str
    groups: PartitionGroups | None = None
    stopped_replica: int | None = None
    started_replica: int | None = None


class _ColumnWidths(NamedTuple):
    call: int
    response: int


def call_text(operation: Operation) -> str:
    return " ".join((operation.name, *(_value_text(each) for each in operation.arguments)))


def outcome_text(outcome: Outcome) -> str:
    """The value or, after a cross, what the error says."""
    if outcome.error is None:
        return _value_text(outcome.value)
    kind, colon, message = outcome.error.partition(": ")
    return f"✗ {message if colon else kind}"


def timeline_lines(history: History) -> list[Text]:
    """Operations and answers in the order of time; faults stand between them as headings."""
    scenario = scenario_from_config(history.config)
    rows = [*_call_rows(history.operations), *_unserved_rows(history.operations, scenario)]
    widths = _widths((row.operation, row.response) for row in rows)
    lines = [_header_line(scenario.replicas, widths)]
    lines.append(_heading(0, "every replica reaches every other"))
    groups: PartitionGroups = ()
    down: set[int | None] = set()
    both: list[_TimelineEvent | _TimelineRow] = [*_timeline_events(history, scenario), *rows]
    for each in sorted(both, key=lambda each: each.at_us):
        if isinstance(each, _TimelineEvent):
            groups = groups if each.groups is None else each.groups
            down = (down | {each.stopped_replica}) - {each.started_replica}
            lines.append(_heading(each.at_us, each.text))
        else:
            links = _links_text(each.replica, groups, down, scenario.replicas)
            lines.append(_row_line(each, links, widths))
    return lines


def committed_order_lines(
    finals: Sequence[CommittedOperation], remark: Callable[[CommittedOperation], Text]
) -> list[Text]:
    """The final order, with when each operation was asked and what it was answered at first."""
    records = [each.record for each in finals if each.record is not None]
    records.sort(key=lambda record: record.invoked_us)
    asked = {record.id: number for number, record in enumerate(records, start=1)}
    call_width = _widths((each.request.operation, each.first_response) for each in finals).call
    first_width = max([5, *(len(_first_response_text(each)) for each in finals)])
    last_width = max([7, *(len(outcome_text(each.outcome)) for each in finals)])
    columns = f"{'operation':{call_width}}  {'first':{first_width}}  finally"
    lines = [Text(f"final asked  {'':6} {columns}", style="dim")]
    for each in finals:
        first = _first_response_text(each)
        line = Text(f"{each.position + 1:>5} {asked.get(each.request.id, ''):>5}  ")
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


# --- the parts of a line ----------------------------------------------------------------------


def _call_rows(records: Iterable[OperationRecord]) -> Iterable[_TimelineRow]:
    for record in records:
        asked = _TimelineRow(record.invoked_us, record.replica, record.operation, record.strong)
        if not record.answers:
            yield asked._replace(missing="no answer")
        for number, answer in enumerate(record.answers):
            if answer.kind is ResponseKind.FINAL and not answer.changed:
                continue
            after_us = answer.at_us - record.invoked_us
            at_us = answer.at_us if number else record.invoked_us
            yield asked._replace(
                at_us=at_us, response=answer, after_us=after_us, is_later_response=number > 0
            )


def _unserved_rows(
    records: Iterable[OperationRecord], scenario: Scenario
) -> Iterator[_TimelineRow]:
    """Scripted calls that left no record: they found their replica down."""
    served = Counter(
        (each.invoked_us, each.replica, each.strong, call_text(each.operation)) for each in records
    )
    for call in scenario.script:
        key = (call.at_us, call.replica, call.strong, call_text(call.operation))
        served[key] -= 1
        if served[key] < 0:
            row = _TimelineRow(call.at_us, call.replica, call.operation, call.strong)
            yield row._replace(missing=f"replica {call.replica} is down")


def _widths(pairs: Iterable[tuple[Operation, ResponseRecord | None]]) -> _ColumnWidths:
    pairs = list(pairs)
    return _ColumnWidths(
        max([9, *(len(call_text(operation)) for operation, _ in pairs)]),
        max([6, *(len(outcome_text(answer.outcome)) for _, answer in pairs if answer)]),
    )


def _header_line(replicas: int, widths: _ColumnWidths) -> Text:
    names = " ".join(map(str, range(replicas)))
    text = f"{'ms':>4}  {names}  {'':6} {'operation':{widths.call}}  {'answer':{widths.response}}"
    return Text(f"{text}  {'which':5} {'after ms':>10}", style="dim")


def _row_line(row: _TimelineRow, links: Text, widths: _ColumnWidths) -> Text:
    line = Text.assemble((f"{row.at_us / 1000:4.0f}  ", "dim"), links, "  ")
    line.append_text(_consistency_text(row.strong))
    line.append(
        f" {call_text(row.operation):{widths.call}}  ", "dim" if row.is_later_response else ""
    )
    if row.response is None:
        line.append(row.missing, style="red")
        return line
    style = KIND_STYLES[row.response.kind]
    line.append(f"{outcome_text(row.response.outcome):{widths.response}}  ", style="bold")
    line.append(f"{row.response.kind.value:9} ", style=style)
    line.append(f"{row.after_us / 1000:6.2f}", style="dim")
    return line


def _consistency_text(strong: bool) -> Text:
    return Text("strong", style="cyan") if strong else Text("weak  ", style="magenta")


def _links_text(at: int, groups: PartitionGroups, down: set[int | None], replicas: int) -> Text:
    """The replicas in a row, neighbours linked unless they are in different groups."""
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
    """What happened to replicas and links, in the order of time."""
    end_us = scenario.duration_us
    faults = sorted(
        (each for each in scenario.faults if each.at_us <= end_us), key=lambda each: each.at_us
    )
    moments = [
        moment
        for fault in faults
        if (moment := _fault_event(fault, scenario, history.operations)) is not None
    ]
    deaths = {
        (each.at_us, each.replica) for each in faults if isinstance(each, Die) and not each.telling
    }
    moments += _crash_events(history, deaths)
    if not _is_healed_at_end(faults):
        # Sorting keeps what stands first: replicas that the end brings back come after it.
        before = [each for each in moments if each.started_replica is None or each.at_us < end_us]
        after = [each for each in moments if each not in before]
        end = _TimelineEvent(
            end_us, "the end: clients stop, and whatever is broken is healed", groups=()
        )
        moments = [*before, end, *after]
    return sorted(moments, key=lambda each: each.at_us)


def _is_healed_at_end(faults: Sequence[Fault]) -> bool:
    """Is there nothing left to heal at the end, as far as one can easily see?"""
    links_only = all(isinstance(each, (Partition, Cut, Heal)) for each in faults)
    return not faults or (links_only and isinstance(faults[-1], Heal))


def _crash_events(history: History, deaths: set[tuple[int, int]]) -> Iterator[_TimelineEvent]:
    """Crashes and restarts, as the logs have them; of deaths their faults tell."""
    born: set[int] = set()
    for log in sorted(history.logs, key=lambda log: (log.replica, log.incarnation)):
        if log.replica in born:
            text = f"replica {log.replica} restarts"
            yield _TimelineEvent(log.started_us, text, started_replica=log.replica)
        born.add(log.replica)
        if log.crashed_us is not None and (log.crashed_us, log.replica) not in deaths:
            text = f"replica {log.replica} crashes (○)"
            yield _TimelineEvent(log.crashed_us, text, stopped_replica=log.replica)


def _fault_event(
    fault: Fault, scenario: Scenario, records: Iterable[OperationRecord]
) -> _TimelineEvent | None:
    """None when the logs tell better whether and when it struck."""
    at_us = fault.at_us
    match fault:
        case Partition(groups=groups):
            return _TimelineEvent(at_us, _partition_text(groups, scenario.replicas), groups=groups)
        case Heal():
            left = [call_text(each.operation) for each in records if _awaits_stable(each, at_us)]
            waiting = f"; still waiting to be stable: {', '.join(left)}" if left else ""
            return _TimelineEvent(at_us, f"the network heals{waiting}", groups=())
        case Cut(sender=sender, receiver=receiver):
            return _TimelineEvent(at_us, f"nothing gets from {sender} to {receiver} any more")
        case Die(replica=replica, telling=True):
            return _TimelineEvent(
                at_us, f"replica {replica} is to die when it has promised a ballot"
            )
        case Die(replica=replica):
            return _TimelineEvent(
                at_us, f"replica {replica} dies (○): it never comes back", stopped_replica=replica
            )
        case Crash(replica=replica, writing=True):
            return _TimelineEvent(
                at_us, f"replica {replica} is to crash when it writes to disk next"
            )
        case Crash() | Restart():
            return None
        case _:
            return _TimelineEvent(at_us, format_fault_rounded(fault))


def _partition_text(groups: PartitionGroups, replicas: int) -> str:
    named = {replica for group in groups for replica in group}
    rest = tuple(each for each in range(replicas) if each not in named)
    sides = {each: ",".join(map(str, each)) for each in (*groups, rest) if each}
    most = [text for group, text in sides.items() if len(group) > replicas // 2]
    majority = f"only {most[0]} are a majority" if most else "none is a majority"
    return f"the network breaks into {' and '.join(sides.values())}; {majority}"


def _awaits_stable(record: OperationRecord, at_us: int) -> bool:
    """Was its client still without a stable answer by then?"""
    stable = record.stable
    answered = stable is not None and stable.at_us < at_us
    return record.strong and record.invoked_us < at_us and not answered


def _value_text(value: Any) -> str:
    if type(value) is str:
        return value
    if type(value) is tuple:
        return f"({', '.join(map(_value_text, value))})"
    return repr(value)
