"""A run as lines of text: who asked what where, and what was answered when.

Every line is derived from the history and the scenario in it. Meant for runs of a few dozen
operations; longer ones are summed up in `creek.cli.measures`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from rich.text import Text

from creek.cli.finals import Final
from creek.history import Answer, History, Kind, Operation, OperationRecord, Outcome
from creek.simulation.fault_text import fault_text
from creek.simulation.faults import Fault, Heal, Partition
from creek.simulation.scenario import Scenario, scenario_from_config

KINDS = {Kind.TENTATIVE: "yellow", Kind.STABLE: "green"}


class _Row(NamedTuple):
    at_us: int
    replica: int
    record: OperationRecord
    answer: Answer | None
    again: bool


class _Widths(NamedTuple):
    call: int
    answer: int


def call_text(operation: Operation) -> str:
    return " ".join((operation.name, *(_value(each) for each in operation.arguments)))


def outcome_text(outcome: Outcome) -> str:
    """The value or, after a cross, what the error says."""
    if outcome.error is None:
        return _value(outcome.value)
    kind, colon, message = outcome.error.partition(": ")
    return f"✗ {message if colon else kind}"


def timeline(history: History) -> list[Text]:
    """Operations and answers in the order of time; faults stand between them as headings."""
    scenario = scenario_from_config(history.config)
    rows = sorted(_rows(history.operations), key=lambda row: row.at_us)
    widths = _widths((row.record.operation, row.answer) for row in rows)
    faults = sorted(scenario.faults, key=lambda fault: fault.at_us)
    lines = [_columns(scenario.replicas, widths)]
    lines.append(_heading(0, "every replica reaches every other"))
    groups: tuple[tuple[int, ...], ...] = ()
    for row in rows:
        while faults and faults[0].at_us <= row.at_us:
            fault = faults.pop(0)
            groups = _groups_after(fault, groups)
            lines.append(_heading(fault.at_us, _fault(fault, scenario, history.operations)))
        lines.append(_line(row, _links(row.replica, groups, scenario.replicas), widths))
    return lines


def order(finals: Sequence[Final], remark: Callable[[Final], Text]) -> list[Text]:
    """The final order, with when each operation was asked and what it was answered at first."""
    records = [each.record for each in finals if each.record is not None]
    records.sort(key=lambda record: record.invoked_us)
    asked = {record.id: number for number, record in enumerate(records, start=1)}
    call_width = _widths((each.request.operation, each.first) for each in finals).call
    first_width = max([5, *(len(_first(each)) for each in finals)])
    last_width = max([7, *(len(outcome_text(each.outcome)) for each in finals)])
    columns = f"{'operation':{call_width}}  {'first':{first_width}}  finally"
    lines = [Text(f"final asked  {'':6} {columns}", style="dim")]
    for each in finals:
        first = _first(each)
        line = Text(f"{each.place + 1:>5} {asked.get(each.request.id, ''):>5}  ")
        line.append_text(_strength(each.request.strong))
        line.append(f" {call_text(each.request.operation):{call_width}}  ")
        line.append(first, style="strike dim" if each.changed else "")
        line.append(" " * (first_width - len(first) + 2))
        line.append(f"{outcome_text(each.outcome):{last_width}}  ")
        line.append_text(remark(each))
        line.rstrip()
        lines.append(line)
    return lines


def _first(final: Final) -> str:
    return "" if final.first is None else outcome_text(final.first.outcome)


def _heading(at_us: int, text: str) -> Text:
    return Text.assemble((f"{at_us / 1000:4.0f}  ", "dim"), (f"── {text}", "bold"))


# --- the parts of a line ----------------------------------------------------------------------


def _rows(records: Iterable[OperationRecord]) -> Iterable[_Row]:
    for record in records:
        first, *later = record.answers or (None,)
        yield _Row(record.invoked_us, record.replica, record, first, again=False)
        for answer in later:
            if answer is not None:
                yield _Row(answer.at_us, record.replica, record, answer, again=True)


def _widths(pairs: Iterable[tuple[Operation, Answer | None]]) -> _Widths:
    pairs = list(pairs)
    return _Widths(
        max([9, *(len(call_text(operation)) for operation, _ in pairs)]),
        max([6, *(len(outcome_text(answer.outcome)) for _, answer in pairs if answer)]),
    )


def _columns(replicas: int, widths: _Widths) -> Text:
    names = " ".join(map(str, range(replicas)))
    text = f"{'ms':>4}  {names}  {'':6} {'operation':{widths.call}}  {'answer':{widths.answer}}"
    return Text(f"{text}  {'which':9} {'after':>6}", style="dim")


def _line(row: _Row, links: Text, widths: _Widths) -> Text:
    line = Text.assemble((f"{row.at_us / 1000:4.0f}  ", "dim"), links, "  ")
    line.append_text(_strength(row.record.strong))
    line.append(f" {call_text(row.record.operation):{widths.call}}  ", "dim" if row.again else "")
    if row.answer is None:
        line.append("no answer", style="red")
        return line
    after_ms = (row.answer.at_us - row.record.invoked_us) / 1000
    style = KINDS[row.answer.kind]
    line.append(f"{outcome_text(row.answer.outcome):{widths.answer}}  ", style="bold")
    line.append(f"{row.answer.kind.value:9} ", style=style)
    line.append(f"{after_ms:6.2f}", style="dim")
    return line


def _strength(strong: bool) -> Text:
    return Text("strong", style="cyan") if strong else Text("weak  ", style="magenta")


def _links(at: int, groups: tuple[tuple[int, ...], ...], replicas: int) -> Text:
    """The replicas in a row, neighbours linked unless they are cut off from each other."""
    group_of = {replica: number for number, group in enumerate(groups) for replica in group}
    text = Text()
    for replica in range(replicas):
        if replica:
            linked = group_of.get(replica) == group_of.get(replica - 1)
            text.append("─" if linked else "×", style="dim" if linked else "red")
        mark = "●" if replica == at else "·"
        text.append(mark.ljust(len(str(replica)), "─"), style="bold" if replica == at else "dim")
    return text


def _groups_after(fault: Fault, groups: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    match fault:
        case Partition(groups=now):
            return now
        case Heal():
            return ()
        case _:
            return groups


def _fault(fault: Fault, scenario: Scenario, records: Iterable[OperationRecord]) -> str:
    match fault:
        case Partition(groups=groups):
            return _sides(groups, scenario.replicas)
        case Heal():
            left = [call_text(each.operation) for each in records if _waits(each, fault.at_us)]
            waiting = f"; still waiting to be stable: {', '.join(left)}" if left else ""
            return f"the network heals{waiting}"
        case _:
            return fault_text(fault)


def _sides(groups: tuple[tuple[int, ...], ...], replicas: int) -> str:
    named = {replica for group in groups for replica in group}
    rest = tuple(each for each in range(replicas) if each not in named)
    sides = {each: ",".join(map(str, each)) for each in (*groups, rest) if each}
    most = [text for group, text in sides.items() if len(group) > replicas // 2]
    majority = f"only {most[0]} are a majority" if most else "none is a majority"
    return f"the network breaks into {' and '.join(sides.values())}; {majority}"


def _waits(record: OperationRecord, at_us: int) -> bool:
    """Was its client still without a stable answer by then?"""
    stable = record.stable
    answered = stable is not None and stable.at_us < at_us
    return record.strong and record.invoked_us < at_us and not answered


def _value(value: Any) -> str:
    if type(value) is str:
        return value
    if type(value) is tuple:
        return f"({', '.join(map(_value, value))})"
    return repr(value)
