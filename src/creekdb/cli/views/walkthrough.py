"""Walkthrough of `creek simulate --story`: a bank on five replicas, a network partition, its
healing.

This module scripts only the calls and the faults. Responses, orders and verdicts come from the
history of the run.
"""

from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text

from creekdb.checkers import RunIndex, Verdict
from creekdb.cli.output import command_name
from creekdb.cli.views.run_summary import verdict_lines
from creekdb.cli.views.timeline import (
    aligned_lines,
    labelled_call,
    outcome_text,
    timeline_lines,
)
from creekdb.datatypes import get_datatype
from creekdb.history import History, OperationRecord, Outcome, Request, ResponseRecord
from creekdb.protocol.request import Operation
from creekdb.server.runtime.config import load_datatype
from creekdb.simulation.faults.fault_types import Heal, Partition
from creekdb.simulation.kernel.scenario import ClientModel, Scenario, ScriptedInvocation

WEAK, STRONG = False, True

INTRODUCTION = (
    "[magenta]  weak    [/]one response at once, even on an isolated replica; the operation's",
    "          position may still change, and then a last response follows ([blue]final[/])",
    "[cyan]  strong  [/]any number of such responses ([yellow]tentative[/]), and a last one when a",
    "          majority has fixed the order ([green]stable[/])",
    "[dim]A response is the new balance of the account, or ✗ and the error.[/]",
)


class CommittedOperation(NamedTuple):
    """One request of `committed`.

    `record` is None for a request that a replica issued itself, such as a no-op.
    """

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
    """Return the committed operations up to the first position that no log contains.

    The final responses come from a sequential replay of the committed order. Clients receive them
    as the stable response of a strong call and the final response of a weak one.
    """
    datatype = load_datatype(history.datatype)
    run = RunIndex(history, datatype)
    machine = datatype.sequential()
    records = {each.id: each for each in history.operations if run.position_of(each) is not None}
    finals: list[CommittedOperation] = []
    for dot in run.committed:
        request = run.request(dot) if dot is not None else None
        if request is None:
            break
        finals.append(CommittedOperation(request, machine.apply(request), records.get(request.id)))
    return finals


def walkthrough_scenario(seed: int, scheme: str) -> Scenario:
    return Scenario(
        seed=seed,
        scheme=scheme,
        datatype="bank",
        replicas=5,
        duration_us=450_000,
        record_orders=True,
        clients=ClientModel(sessions=0),
        script=(
            _scripted_call(20, 0, WEAK, "open", "ann", 100),
            _scripted_call(40, 3, WEAK, "deposit", "ann", 30),
            _scripted_call(60, 1, STRONG, "withdraw", "ann", 10),
            # By now both sides have detected the partition, and the larger one has a leader.
            _scripted_call(200, 0, WEAK, "withdraw", "ann", 80),
            _scripted_call(210, 3, WEAK, "withdraw", "ann", 70),
            _scripted_call(220, 4, STRONG, "withdraw", "ann", 20),
            _scripted_call(230, 1, STRONG, "withdraw", "ann", 35),
            _scripted_call(400, 2, WEAK, "deposit", "ann", 5),
            _scripted_call(420, 0, STRONG, "balance", "ann"),
        ),
        faults=(
            Partition(at_us=100_000, groups=((0, 1), (2, 3, 4))),
            Heal(at_us=300_000),
        ),
    )


def _scripted_call(
    at_ms: int, replica: int, strong: bool, name: str, *arguments: object
) -> ScriptedInvocation:
    operation: Operation = get_datatype("bank").call(name, *arguments)
    return ScriptedInvocation(at_ms * 1000, replica, operation, strong)


def walkthrough_lines(history: History, verdicts: Sequence[Verdict]) -> list[Text]:
    """Return the run of `walkthrough_scenario` as lines of text."""
    finals = committed_operations(history)
    return [
        Text(f"A bank on {len(history.members)} replicas. A client calls the replica marked ●:"),
        *map(Text.from_markup, INTRODUCTION),
        Text(),
        *timeline_lines(history),
        Text(),
        Text("The final order, with the final response of each operation:", style="bold"),
        *_committed_order_lines(finals),
        _change_summary(finals),
        _state_summary(history),
        *verdict_lines(verdicts),
        Text(),
        Text.assemble(
            ("Try next:  ", "bold"), f"{command_name()} simulate --random-faults --seed 7"
        ),
    ]


def _committed_order_lines(finals: Sequence[CommittedOperation]) -> list[Text]:
    """Return the final order, with the call order and the first response of each operation."""
    records = [each.record for each in finals if each.record is not None]
    records.sort(key=lambda record: record.invoked_us)
    call_numbers = {record.id: number for number, record in enumerate(records, start=1)}
    header = ["order  call", f"{'':6} operation", "first", "final", ""]
    rows = [[Text(title, style="dim") for title in header]]
    for position, each in enumerate(finals, start=1):
        request, first = each.request, each.first_response
        first_text = "" if first is None else outcome_text(first.outcome)
        remark = ("corrected", "green") if request.strong else ("apology due", "red")
        rows.append(
            [
                Text(f"{position:>5} {call_numbers.get(request.id, ''):>5}"),
                labelled_call(request.strong, request.operation),
                Text.assemble((first_text, "strike dim" if each.changed else "")),
                Text(outcome_text(each.outcome)),
                Text.assemble(remark if each.changed else ""),
            ]
        )
    return aligned_lines(rows)


def _change_summary(finals: Sequence[CommittedOperation]) -> Text:
    weak = [each.changed for each in finals if each.record and not each.request.strong]
    stable = [
        not each.record.stable.outcome.same_as(each.outcome)
        for each in finals
        if each.record is not None and each.record.stable is not None
    ]
    return Text(
        f"  {sum(weak)} of {len(weak)} weak responses changed; "
        f"{sum(stable)} of {len(stable)} stable responses changed"
    )


def _state_summary(history: History) -> Text:
    finals = history.final_states
    count = len({(each.first, each.committed, each.tentative, each.state) for each in finals})
    if count > 1:
        return Text.assemble(("✗ ", "red"), f"{len(finals)} replicas ended in {count} states")
    accounts = ", ".join(f"{_key_text(key)} has {value}" for key, value in finals[0].state)
    return Text.assemble(
        ("✓ ", "green"), f"all {len(finals)} replicas ended with this order: {accounts}"
    )


def _key_text(key: object) -> str:
    return str(key[-1]) if isinstance(key, tuple) else str(key)
