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

from creekdb.checkers import Run
from creekdb.evaluation.experiment import datatype_named
from creekdb.history import Answer, Dot, History, Kind, Operation, OperationRecord, Outcome, Request
from creekdb.simulation.faults.fault_types import Crash, Cut, Die, Fault, Heal, Partition, Restart
from creekdb.simulation.faults.language import rough_fault_text
from creekdb.simulation.kernel.scenario import Scenario, scenario_from_config


class Final(NamedTuple):
    """One request of `committed`, whose places count from 0. Without a `record` it is a replica's
    own, such as a no-op."""

    place: int
    request: Request
    outcome: Outcome
    record: OperationRecord | None

    @property
    def first(self) -> Answer | None:
        """The first answer that its client got."""
        return self.record.answers[0] if self.record is not None and self.record.answers else None

    @property
    def changed(self) -> bool:
        """Is the first answer another than the final one?"""
        return self.first is not None and not self.first.outcome.same_as(self.outcome)


def final_order(history: History) -> list[Final]:
    """`committed`, up to the first place of which no log tells."""
    datatype = datatype_named(history.datatype)
    run = Run(history, datatype)
    machine = datatype.sequential()
    records = _committed_records(run)
    finals: list[Final] = []
    for place, dot in enumerate(run.committed):
        request = run.request(dot) if dot is not None else None
        if request is None:
            break
        finals.append(Final(place, request, machine.apply(request), records.get(request.id)))
    return finals


def _committed_records(run: Run) -> dict[Dot, OperationRecord]:
    return {
        record.id: record for record in run.history.operations if run.index_of(record) is not None
    }


KINDS = {Kind.TENTATIVE: "yellow", Kind.STABLE: "green", Kind.FINAL: "blue"}


Groups: TypeAlias = tuple[tuple[int, ...], ...]


class _Row(NamedTuple):
    """A call with its first answer, or a later answer. Without one, `missing` says why."""

    at_us: int
    replica: int
    operation: Operation
    strong: bool
    answer: Answer | None = None
    after_us: int = 0
    again: bool = False
    missing: str = ""


class _Moment(NamedTuple):
    """A heading, and what is different from then on."""

    at_us: int
    text: str
    groups: Groups | None = None
    stops: int | None = None
    starts: int | None = None


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
    rows = [*_rows(history.operations), *_unserved(history.operations, scenario)]
    widths = _widths((row.operation, row.answer) for row in rows)
    lines = [_columns(scenario.replicas, widths)]
    lines.append(_heading(0, "every replica reaches every other"))
    groups: Groups = ()
    down: set[int | None] = set()
    both: list[_Moment | _Row] = [*_moments(history, scenario), *rows]
    for each in sorted(both, key=lambda each: each.at_us):
        if isinstance(each, _Moment):
            groups = groups if each.groups is None else each.groups
            down = (down | {each.stops}) - {each.starts}
            lines.append(_heading(each.at_us, each.text))
        else:
            links = _links(each.replica, groups, down, scenario.replicas)
            lines.append(_line(each, links, widths))
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
        asked = _Row(record.invoked_us, record.replica, record.operation, record.strong)
        if not record.answers:
            yield asked._replace(missing="no answer")
        for number, answer in enumerate(record.answers):
            if answer.kind is Kind.FINAL and not answer.changed:
                continue
            after_us = answer.at_us - record.invoked_us
            at_us = answer.at_us if number else record.invoked_us
            yield asked._replace(at_us=at_us, answer=answer, after_us=after_us, again=number > 0)


def _unserved(records: Iterable[OperationRecord], scenario: Scenario) -> Iterator[_Row]:
    """Scripted calls that left no record: they found their replica down."""
    served = Counter(
        (each.invoked_us, each.replica, each.strong, call_text(each.operation)) for each in records
    )
    for call in scenario.script:
        key = (call.at_us, call.replica, call.strong, call_text(call.operation))
        served[key] -= 1
        if served[key] < 0:
            row = _Row(call.at_us, call.replica, call.operation, call.strong)
            yield row._replace(missing=f"replica {call.replica} is down")


def _widths(pairs: Iterable[tuple[Operation, Answer | None]]) -> _Widths:
    pairs = list(pairs)
    return _Widths(
        max([9, *(len(call_text(operation)) for operation, _ in pairs)]),
        max([6, *(len(outcome_text(answer.outcome)) for _, answer in pairs if answer)]),
    )


def _columns(replicas: int, widths: _Widths) -> Text:
    names = " ".join(map(str, range(replicas)))
    text = f"{'ms':>4}  {names}  {'':6} {'operation':{widths.call}}  {'answer':{widths.answer}}"
    return Text(f"{text}  {'which':5} {'after ms':>10}", style="dim")


def _line(row: _Row, links: Text, widths: _Widths) -> Text:
    line = Text.assemble((f"{row.at_us / 1000:4.0f}  ", "dim"), links, "  ")
    line.append_text(_strength(row.strong))
    line.append(f" {call_text(row.operation):{widths.call}}  ", "dim" if row.again else "")
    if row.answer is None:
        line.append(row.missing, style="red")
        return line
    style = KINDS[row.answer.kind]
    line.append(f"{outcome_text(row.answer.outcome):{widths.answer}}  ", style="bold")
    line.append(f"{row.answer.kind.value:9} ", style=style)
    line.append(f"{row.after_us / 1000:6.2f}", style="dim")
    return line


def _strength(strong: bool) -> Text:
    return Text("strong", style="cyan") if strong else Text("weak  ", style="magenta")


def _links(at: int, groups: Groups, down: set[int | None], replicas: int) -> Text:
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


def _moments(history: History, scenario: Scenario) -> list[_Moment]:
    """What happened to replicas and links, in the order of time."""
    end_us = scenario.duration_us
    faults = sorted(
        (each for each in scenario.faults if each.at_us <= end_us), key=lambda each: each.at_us
    )
    moments = [
        moment
        for fault in faults
        if (moment := _fault(fault, scenario, history.operations)) is not None
    ]
    deaths = {
        (each.at_us, each.replica) for each in faults if isinstance(each, Die) and not each.telling
    }
    moments += _lives(history, deaths)
    if not _leave_nothing(faults):
        # Sorting keeps what stands first: replicas that the end brings back come after it.
        before = [each for each in moments if each.starts is None or each.at_us < end_us]
        after = [each for each in moments if each not in before]
        end = _Moment(end_us, "the end: clients stop, and whatever is broken is healed", groups=())
        moments = [*before, end, *after]
    return sorted(moments, key=lambda each: each.at_us)


def _leave_nothing(faults: Sequence[Fault]) -> bool:
    """Is there nothing left to heal at the end, as far as one can easily see?"""
    links_only = all(isinstance(each, (Partition, Cut, Heal)) for each in faults)
    return not faults or (links_only and isinstance(faults[-1], Heal))


def _lives(history: History, deaths: set[tuple[int, int]]) -> Iterator[_Moment]:
    """Crashes and restarts, as the logs have them; of deaths their faults tell."""
    born: set[int] = set()
    for log in sorted(history.logs, key=lambda log: (log.replica, log.incarnation)):
        if log.replica in born:
            text = f"replica {log.replica} restarts"
            yield _Moment(log.started_us, text, starts=log.replica)
        born.add(log.replica)
        if log.crashed_us is not None and (log.crashed_us, log.replica) not in deaths:
            text = f"replica {log.replica} crashes (○)"
            yield _Moment(log.crashed_us, text, stops=log.replica)


def _fault(fault: Fault, scenario: Scenario, records: Iterable[OperationRecord]) -> _Moment | None:
    """None when the logs tell better whether and when it struck."""
    at_us = fault.at_us
    match fault:
        case Partition(groups=groups):
            return _Moment(at_us, _sides(groups, scenario.replicas), groups=groups)
        case Heal():
            left = [call_text(each.operation) for each in records if _waits(each, at_us)]
            waiting = f"; still waiting to be stable: {', '.join(left)}" if left else ""
            return _Moment(at_us, f"the network heals{waiting}", groups=())
        case Cut(sender=sender, receiver=receiver):
            return _Moment(at_us, f"nothing gets from {sender} to {receiver} any more")
        case Die(replica=replica, telling=True):
            return _Moment(at_us, f"replica {replica} is to die when it has promised a ballot")
        case Die(replica=replica):
            return _Moment(at_us, f"replica {replica} dies (○): it never comes back", stops=replica)
        case Crash(replica=replica, writing=True):
            return _Moment(at_us, f"replica {replica} is to crash when it writes to disk next")
        case Crash() | Restart():
            return None
        case _:
            return _Moment(at_us, rough_fault_text(fault))


def _sides(groups: Groups, replicas: int) -> str:
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
