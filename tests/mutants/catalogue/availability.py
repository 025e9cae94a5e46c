"""Mutants of availability: responses that wait for events outside the replica.

No checker can distinguish them from slow responses, because histories do not record when a replica
was busy. The idle watch on simulated replicas detects them (`tests/simulation/idle_watch.py`).
"""

from tests.mutants.catalogue import Edit, Mutant

BASIC = "schemes/basic.py"
TENTATIVE_RESPONSES = "schemes/core/tentative_responses.py"
CREEK = "schemes/creek.py"

_TAKE_EFFECTS = "return self.outbox.take()"
_WITHHOLD_RESPONSES = """responses = []
        has_stable = any(each.kind.value != "tentative" for each in self.outbox.responses)
        if len(self._seen_senders) < {count} and not has_stable:
            responses, self.outbox.responses = self.outbox.responses, []
        effects = self.outbox.take()
        self.outbox.responses += responses
        if not responses:
            self._seen_senders.clear()
        return effects"""
"""Replacement that withholds tentative responses until messages from `count` senders arrive."""

_RECEIVE = "        if self._stack.receive(message, sender, now):\n"
_TICK = "        noop = self._ordering.tick(now)\n"
_CONSTRUCT = "        self.index = index\n"

ONE_PEER = "min(1, len(self._stack.settings.peers(self.index)))"
MAJORITY = "(len(self._stack.settings.peers(self.index)) + 1) // 2"


def _mutant(name: str, rule: str, scheme: str, *edits: Edit) -> Mutant:
    return Mutant(name, rule, 20, edits, scheme)


def _withhold_until(scheme: str, count: str, record_sender: Edit) -> tuple[Edit, ...]:
    return (
        Edit(scheme, _CONSTRUCT, f"{_CONSTRUCT}        self._seen_senders: set[int] = set()\n"),
        Edit(scheme, _TAKE_EFFECTS, _WITHHOLD_RESPONSES.format(count=count)),
        record_sender,
    )


def _record_sender_if(scheme: str, condition: str) -> Edit:
    recorded = f"        if {condition}:\n            self._seen_senders.add(sender)\n"
    return Edit(scheme, _RECEIVE, recorded + _RECEIVE)


MUTANTS: tuple[Mutant, ...] = (
    _mutant(
        "response_waits_for_vote",
        "Section 3.4: a weak response does not wait for coordination, such as consensus",
        "basic",
        *_withhold_until(
            BASIC, ONE_PEER, _record_sender_if(BASIC, 'type(message).__name__ == "Vote"')
        ),
    ),
    _mutant(
        "response_waits_for_summary",
        "Section 3.4: a weak response does not wait for a summary of another replica",
        "creek",
        *_withhold_until(
            CREEK, ONE_PEER, _record_sender_if(CREEK, 'type(message).__name__ == "Summary"')
        ),
    ),
    _mutant(
        "response_waits_for_majority",
        "Section 3.4: a weak response does not wait for messages from a majority",
        "bayou",
        *_withhold_until(BASIC, MAJORITY, _record_sender_if(BASIC, "True")),
    ),
    _mutant(
        "response_waits_for_tick",
        "Section 3.4: an operation is executed immediately, and its response issued",
        "basic",
        *_withhold_until(
            BASIC, "1", Edit(BASIC, _TICK, f"{_TICK}        self._seen_senders.add(self.index)\n")
        ),
    ),
    _mutant(
        "response_waits_for_commit",
        "Section 3.4: a response is sent although it may differ once the replicas synchronise",
        "creek",
        Edit(
            TENTATIVE_RESPONSES,
            "        blocker = self.find_blocker(entry, entry.effective_reads)\n",
            (
                "        blocker = self.find_blocker(entry, entry.effective_reads)\n"
                "        id, committed = entry.request.id, self._order.committed_ids\n"
                "        if blocker is None and id not in committed:\n"
                "            blocker = entry\n"
            ),
        ),
    ),
)
