"""Mutants of the systems that Creek is compared with: `smr`, `bayou` and `archie`.

The other catalogues break the parts that these systems share with Creek. The mutants here break
their own rules:

- Each request is ordered separately.
- Responses wait for the order (`smr`, `archie`) or are tentative (`bayou`).
- One primary decides (`bayou`).
- An invalid speculation is executed again (`archie`).
"""

from tests.mutants.catalogue import Edit, Mutant

ORDERING = "schemes/core/ordering.py"
SEQUENTIAL = "schemes/core/sequential.py"
VERSIONED = "schemes/core/versioned.py"
BASIC = "schemes/basic.py"
ARCHIE = "schemes/archie.py"
CAB = "protocol/broadcast/cab.py"


def _mutant(name: str, rule: str, scheme: str, seeds: int, *edits: Edit) -> Mutant:
    return Mutant(name, rule, seeds, edits, scheme)


MUTANTS: tuple[Mutant, ...] = (
    # --- total order ------------------------------------------------------------------------------
    _mutant(
        "total_order_includes_context",
        "a request that is ordered separately commits no other request",
        "smr",
        20,
        Edit(
            ORDERING,
            "            strong, context = True, Dots()\n        elif strong:\n",
            "            strong = True\n        if strong:\n",
        ),
    ),
    _mutant(
        "weak_request_is_not_ordered",
        "Section 6.2: all transactions are delivered by AB",
        "bayou",
        20,
        Edit(
            ORDERING,
            "strong, context = True, Dots()",
            "context = Dots()",
        ),
    ),
    # --- SMR ------------------------------------------------------------------------------------
    _mutant(
        "smr_executes_on_arrival",
        "Section 6.2: SMR executes transactions after they have been delivered by AB",
        "smr",
        20,
        Edit(
            SEQUENTIAL,
            "if not self._speculates or done",
            "if done",
        ),
    ),
    _mutant(
        "smr_executes_newest_first",
        "Section 6.2: SMR executes transactions sequentially, in the order of their delivery",
        "smr",
        20,
        Edit(
            SEQUENTIAL,
            "return order.committed[done]",
            "return order.committed[-1]",
        ),
    ),
    _mutant(
        "smr_responds_tentatively",
        "SMR sends no tentative responses",
        "smr",
        20,
        Edit(BASIC, "strong or not self.guarantees.tentative", "strong"),
    ),
    # --- Bayou ----------------------------------------------------------------------------------
    _mutant(
        "bayou_secondary_votes",
        "only the primary votes",
        "bayou",
        20,
        Edit(
            CAB, "self._can_vote = shared.index in shared.settings.voters", "self._can_vote = True"
        ),
    ),
    _mutant(
        "primary_recovers_in_reverse_order",
        "the primary orders requests as it received them, including recovered ones",
        "bayou",
        200,
        Edit(
            CAB,
            ("        for id in cast_ids:\n            self.cab_cast(id)"),
            ("        for id in reversed(list(cast_ids)):\n            self.cab_cast(id)"),
        ),
    ),
    _mutant(
        "bayou_executes_in_arrival_order",
        "tentative operations are executed in timestamp order",
        "bayou",
        100,
        Edit(
            BASIC,
            "            self._execution.insert(request)  # line 41\n",
            "            pass\n",
        ),
    ),
    # --- Archie ---------------------------------------------------------------------------------
    _mutant(
        "archie_responds_after_speculation",
        "Section 6: Archie does not return responses after completing speculative execution",
        "archie",
        20,
        Edit(
            ARCHIE,
            "self.outbox.events.append(SpeculativelyExecuted(request.id, entry.outcome))",
            "self._responses.respond_stable(request.id, entry.outcome)",
        ),
    ),
    _mutant(
        "archie_assumes_proposed_order",
        "Section 6.2: only while the leader stays does the optimistic order match the final one",
        "archie",
        400,
        Edit(
            ARCHIE,
            "in_order = not proposed or entry.position < proposed[0]",
            "in_order = True",
        ),
    ),
    _mutant(
        "archie_drops_queued_request",
        "a decided request is executed, even if its speculation had not started",
        "archie",
        100,
        Edit(
            VERSIONED,
            "        if was_queued:\n            self.scheduler.add(entry)\n",
            "",
        ),
    ),
    _mutant(
        "archie_keeps_invalid_speculation",
        "an invalid speculation is executed again",
        "archie",
        200,
        Edit(
            ARCHIE,
            "            self._execution.reschedule(entry)\n",
            "",
        ),
    ),
)
