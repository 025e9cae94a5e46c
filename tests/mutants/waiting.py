"""Deliberate faults of availability: answers that wait for what is not the replica's own to do.

No checker tells them from slow ones, since histories do not say when a replica was at work. They
are caught by the watch on simulated replicas (`tests/simulation/leisure.py`).
"""

from tests.mutants.catalogue import Edit, Mutant

ORDERING = "schemes/core/ordering.py"
CREEK = "schemes/creek.py"

_TAKEN = "return self._outbox.take()"
_HELD_BACK = """responses = []
        told_more = any(each.kind.value != "tentative" for each in self._outbox.responses)
        if len(self._heard) < {enough} and not told_more:
            responses, self._outbox.responses = self._outbox.responses, []
        effects = self._outbox.take()
        self._outbox.responses += responses
        if not responses:
            self._heard.clear()
        return effects"""
"""Tentative answers stay until enough was heard since."""

_RECEIVED = "        if self._stack.receive(message, sender, now):\n"
_TICKED = "        self._stack.tick(now)\n"
_BEGUN = "        self._stabiliser = Stabiliser(self._order.committed_ids, settings.noop_ticks)\n"

ONE = "min(1, len(self._stack.settings.peers(self.index)))"
MAJORITY = "(len(self._stack.settings.peers(self.index)) + 1) // 2"


def _mutant(name: str, rule: str, scheme: str, *edits: Edit) -> Mutant:
    return Mutant(name, rule, 20, edits, scheme)


def _waits(enough: str, heard: Edit) -> tuple[Edit, ...]:
    return (
        Edit(ORDERING, _BEGUN, f"{_BEGUN}        self._heard: set[int] = set()\n"),
        Edit(ORDERING, _TAKEN, _HELD_BACK.format(enough=enough)),
        heard,
    )


def _heard_if(condition: str) -> Edit:
    noted = f"        if {condition}:\n            self._heard.add(sender)\n"
    return Edit(ORDERING, _RECEIVED, noted + _RECEIVED)


MUTANTS: tuple[Mutant, ...] = (
    _mutant(
        "answer_waits_for_a_vote",
        "Section 3.4: a weak response does not wait for coordination: for consensus, say",
        "basic",
        *_waits(ONE, _heard_if('type(message).__name__ == "Vote"')),
    ),
    _mutant(
        "answer_waits_for_a_summary",
        "Section 3.4: nor until another replica tells what it has received",
        "creek",
        *_waits(ONE, _heard_if('type(message).__name__ == "Summary"')),
    ),
    _mutant(
        "answer_waits_for_a_majority",
        "Section 3.4: nor until a majority was heard of",
        "bayou",
        *_waits(MAJORITY, _heard_if("True")),
    ),
    _mutant(
        "answer_waits_for_a_tick",
        "Section 3.4: an operation is executed immediately, and its response issued",
        "basic",
        *_waits("1", Edit(ORDERING, _TICKED, f"{_TICKED}        self._heard.add(self.index)\n")),
    ),
    _mutant(
        "answer_waits_for_its_commit",
        "Section 3.4: a response may be another than once replicas synchronize, but is given",
        "creek",
        Edit(
            CREEK,
            "        blocker = self._find_blocker(entry, entry.reads)\n",
            (
                "        blocker = self._find_blocker(entry, entry.reads)\n"
                "        if blocker is None and not self.is_committed(entry.request.id):\n"
                "            blocker = entry\n"
            ),
        ),
    ),
)
