"""Deliberate faults of the systems that Creek is compared with: `smr`, `bayou` and `archie`.

What they share with Creek is broken in the other catalogues. Here is what makes them what they are:
that everything is ordered for itself, that answers wait for the order or do not, that one primary
decides, and that a speculation may have been wrong.
"""

from tests.mutants.catalogue import Edit, Mutant

ORDERING = "schemes/core/ordering.py"
SMR = "schemes/smr.py"
BAYOU = "schemes/bayou.py"
ARCHIE = "schemes/archie.py"
CAB = "protocol/broadcast/cab.py"


def _mutant(name: str, rule: str, scheme: str, seeds: int, *edits: Edit) -> Mutant:
    return Mutant(name, rule, seeds, edits, scheme)


MUTANTS: tuple[Mutant, ...] = (
    # --- everything is ordered, each for itself ---------------------------------------------------
    _mutant(
        "ordered_for_itself_with_others",
        "what is ordered for itself takes nothing along",
        "smr",
        20,
        Edit(ORDERING, "        if self.has_total_order:\n", "        if False:\n"),
    ),
    _mutant(
        "weak_is_not_ordered",
        "Section 6.2: all transactions are delivered by AB",
        "bayou",
        20,
        Edit(
            ORDERING,
            "self._issue(operation, strong or self.has_total_order, now)",
            "self._issue(operation, strong, now)",
        ),
    ),
    # --- SMR ------------------------------------------------------------------------------------
    _mutant(
        "smr_executes_on_arrival",
        "Section 6.2: SMR executes transactions after they have been delivered by AB",
        "smr",
        20,
        Edit(
            SMR,
            "return self._order.committed[done] if done < len(self._order.committed) else None",
            "return super()._next_to_execute() if done >= 0 else None",
        ),
    ),
    _mutant(
        "smr_executes_the_newest",
        "Section 6.2: SMR executes transactions sequentially, in the order of their delivery",
        "smr",
        20,
        Edit(
            SMR,
            "return self._order.committed[done] if done",
            "return self._order.committed[-1] if done",
        ),
    ),
    _mutant(
        "smr_answers_the_weak_as_creek_does",
        "there are no tentative answers",
        "smr",
        20,
        Edit(ORDERING, "strong or not self.has_tentative_responses", "strong"),
    ),
    # --- Bayou ----------------------------------------------------------------------------------
    _mutant(
        "vote_of_one_who_has_none",
        "the primary alone votes",
        "bayou",
        20,
        Edit(CAB, "self._can_vote = index in settings.voters", "self._can_vote = True"),
    ),
    _mutant(
        "primary_takes_up_in_reverse",
        "the primary orders in the order in which it received, also what it finds at a restart",
        "bayou",
        200,
        Edit(
            CAB,
            ("        for id in offered:\n            self.cab_cast(id)"),
            ("        for id in reversed(list(offered)):\n            self.cab_cast(id)"),
        ),
    ),
    _mutant(
        "bayou_executes_in_the_order_of_arrival",
        "tentative operations are executed in the order of their timestamps",
        "bayou",
        100,
        Edit(
            BAYOU,
            "        super().__init__(index, primary, datatype)\n",
            "        super().__init__(index, primary, datatype)\n\n"
            "    def _inserted(self, request: Request) -> None:\n"
            "        pass\n",
        ),
        Edit(
            BAYOU,
            "from creekdb.protocol.settings import Settings\n",
            "from creekdb.protocol.request import Request\n"
            "from creekdb.protocol.settings import Settings\n",
        ),
    ),
    # --- Archie ---------------------------------------------------------------------------------
    _mutant(
        "speculation_is_answered",
        "Section 6: Archie does not return responses after completing speculative execution",
        "archie",
        20,
        Edit(
            ARCHIE,
            "self._outbox.events.append(SpeculativelyExecuted(request.id, entry.outcome))",
            "self._responses.stably(request.id, entry.outcome)",
        ),
    ),
    _mutant(
        "proposed_order_taken_for_granted",
        "Section 6.2: only while the leader stays does the optimistic order match the final one",
        "archie",
        400,
        Edit(
            ARCHIE,
            "        if not self._optimistic_positions "
            "or entry.position < self._optimistic_positions[0]:\n",
            "        if True:\n",
        ),
    ),
    _mutant(
        "confirmed_before_it_began_and_forgotten",
        "what is decided is executed, whether or not it was under way",
        "archie",
        100,
        Edit(
            ARCHIE,
            "        if waited:\n            self._scheduler.add(entry)\n",
            "",
        ),
    ),
    _mutant(
        "wrong_speculation_stands",
        "a speculation that turned out wrong is executed again",
        "archie",
        200,
        Edit(
            ARCHIE,
            ("        self.probes.hit(Probe.ROLLED_BACK)\n        self._reschedule(entry)\n"),
            "        self.probes.hit(Probe.ROLLED_BACK)\n",
        ),
    ),
)
