"""How each operation was finally ordered, and what it finally answered.

Read off a history alone: the committed order, replayed by the data type run sequentially. A strong
operation's client is told the same in its stable answer, a weak one's in its final answer.
"""

from typing import NamedTuple

from creekdb.checkers import Run
from creekdb.evaluation.experiment import datatype_named
from creekdb.history import Answer, Dot, History, OperationRecord, Outcome, Request


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
