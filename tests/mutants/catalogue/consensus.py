"""Mutants of consensus and of conditional atomic broadcast, which the fuzzer must detect.

Proposing before the predicate holds has no mutant: it is wasteful but correct. Neither has a
dropped deferred vote, which is requested again.
"""

from tests.mutants.catalogue import (
    ACCEPTOR,
    CAB,
    LEADER,
    LEARNER,
    OMEGA,
    ORDERING,
    RELIABLE_BROADCAST,
    STACK,
    AnyMutant,
    Edit,
    Mutant,
    tested,
)

DELIVER_WITHOUT_CONTEXT = Edit(
    RELIABLE_BROADCAST, "if request.context is None:\n            return False", "return False"
)
"""Removal of the broadcast's guard. Both the broadcast, for speed, and the predicate, for
correctness, wait for a causal context, so the guard would hide a fault of the predicate."""

MUTANTS: tuple[AnyMutant, ...] = (
    # --- acceptor: no vote against a promise or before the predicate holds -----------------------
    Mutant(
        "votes_before_predicate_holds",
        "Section 5: an acceptor votes for v only once rcv(v) and q(m) hold",
        20,
        (
            Edit(
                ACCEPTOR,
                "self._must_defer(message.instance, message.batch)",
                "self._must_defer(message.instance, ())",
            ),
        ),
    ),
    Mutant(
        "accepts_below_promised_ballot",
        "an acceptor never votes below its promised ballot",
        100,
        (Edit(ACCEPTOR, "if message.ballot < self.promised:", "if False:"),),
    ),
    Mutant(
        "promise_omits_accepted_value",
        "a promise reports every accepted value",
        60,
        (Edit(ACCEPTOR, "if max(each, ~each) >= first", "if max(each, ~each) > first"),),
    ),
    Mutant(
        "votes_before_accepted_value_is_durable",
        "an accepted value is durable before the vote for it is sent",
        180,
        (Edit(ACCEPTOR, "self._outbox.records.append(Accepted(value))", "pass"),),
    ),
    Mutant(
        "loses_accepted_values_on_restart",
        "an acceptor recovers its accepted values after a restart",
        180,
        (
            Edit(
                STACK,
                "self.cab.restore(recovered.promised, recovered.accepted,",
                "self.cab.restore(recovered.promised, [],",
            ),
        ),
    ),
    Mutant(
        "discards_accepted_value_before_decision",
        "an accepted value is retained until its instance is decided",
        60,
        (
            Edit(
                ACCEPTOR,
                "if max(each, ~each) < instance]",
                "if max(each, ~each) <= instance]",
            ),
        ),
    ),
    Mutant(
        "loses_promise_on_restart",
        "an acceptor recovers its promised ballot after a restart",
        180,
        (
            Edit(
                STACK,
                "self.cab.restore(recovered.promised, recovered.accepted,",
                "self.cab.restore(NO_BALLOT, recovered.accepted,",
            ),
        ),
    ),
    Mutant(
        "promises_lower_ballot",
        "an acceptor never promises a lower ballot than before",
        20,
        (
            Edit(ACCEPTOR, "if prepare.ballot < self.promised:", "if False:"),
            Edit(ACCEPTOR, "if ballot > self.promised:", "if ballot != self.promised:"),
        ),
    ),
    Mutant(
        "casts_deferred_vote_of_stale_ballot",
        "a deferred vote is void once a higher ballot is promised",
        220,
        (Edit(ACCEPTOR, "if deferred.ballot < self.promised:", "if False:"),),
    ),
    # --- learner ---------------------------------------------------------------------------------
    Mutant(
        "decides_without_majority_of_votes",
        "a batch is decided by the votes of a majority",
        100,
        (
            Edit(
                LEARNER,
                "< self._shared.settings.majority:",
                "< self._shared.settings.majority - 1:",
            ),
        ),
    ),
    Mutant(
        "adds_votes_of_different_ballots",
        "the votes that decide a batch are cast in one ballot",
        420,
        (
            Edit(
                LEARNER,
                "if ballot not in ballots:",
                "ballot = Ballot(1, 0)\n        if ballot not in ballots:",
            ),
        ),
    ),
    Mutant(
        "sends_decisions_with_wrong_instances",
        "every replica reports the same batch for an instance",
        40,
        (Edit(LEARNER, "Decisions(first, batches)", "Decisions(first + 1, batches)"),),
    ),
    Mutant(
        "never_requests_missing_decisions",
        "agreement: a request that one replica CAB-delivers is delivered by all correct ones",
        40,
        (Edit(LEARNER, "self._outbox.send((peer,), CatchUp(first))", "pass"),),
    ),
    # --- leader ----------------------------------------------------------------------------------
    Mutant(
        "leads_without_majority_of_promises",
        "a leader proposes once a majority has promised its ballot",
        40,
        (
            Edit(
                LEADER, ">= self._shared.settings.majority", ">= self._shared.settings.majority - 1"
            ),
        ),
    ),
    Mutant(
        "ignores_accepted_values_of_promises",
        "a new leader proposes again every value that may have been decided",
        100,
        (Edit(LEADER, "elif instance in recovered:", "elif False:"),),
    ),
    Mutant(
        "recovers_value_of_lowest_ballot",
        "of the values accepted in an instance, a new leader proposes that of the highest ballot",
        600,
        (Edit(LEADER, "known.rank < value.rank", "known.rank > value.rank"),),
    ),
    Mutant(
        "skips_gaps_between_recovered_values",
        "a new leader fills the gaps between recovered instances",
        600,
        (Edit(LEADER, "self._propose(instance, ())", "pass"),),
    ),
    Mutant(
        "leads_without_decisions_of_others",
        "a leader first learns the decisions of the members that promised its ballot",
        60,
        (
            Edit(
                CAB,
                "if self.learner.first_undecided < self.leader.most_advanced_promise()[0]:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "keeps_leading_when_outbid",
        "validity: an outbid leader prepares a new ballot when it is trusted again",
        600,
        (
            Edit(
                LEADER,
                "if self.phase is not LeaderPhase.FOLLOWING and ballot > self.ballot:",
                "if False:",
            ),
        ),
        first=500,
    ),
    Mutant(
        "reuses_recovered_instance",
        "a leader proposes one batch per instance of its ballot",
        100,
        (Edit(LEADER, "self._next_instance = end", "self._next_instance = first"),),
    ),
    Mutant(
        "never_repeats_accept",
        "validity: a lost proposal is repeated until it is decided",
        160,
        (Edit(LEADER, "self._send_accept(instance, proposal.batch)", "pass"),),
    ),
    Mutant(
        "never_repeats_prepare",
        "validity: a lost prepare is repeated until a majority has promised",
        160,
        (Edit(LEADER, "self._outbox.send(unpromised, self._prepare)", "pass"),),
    ),
    # --- conditional atomic broadcast ------------------------------------------------------------
    Mutant(
        "delivers_before_predicate_holds",
        "Section 3.3: m is CAB-delivered only if q(m) holds",
        20,
        (
            Edit(
                CAB,
                (
                    "elif (missing := self._missing_dependency(id)) is not None:\n"
                    "                self._probes.hit(Probe.DELIVERY_DEFERRED)"
                ),
                (
                    "elif (missing := self._missing_dependency(id)) is not None and False:\n"
                    "                self._probes.hit(Probe.DELIVERY_DEFERRED)"
                ),
            ),
        ),
    ),
    Mutant(
        "ignores_causal_context_in_check_dep",
        "lines 10-14: checkDep requires the whole causal context, in any order of arrival",
        40,
        (
            DELIVER_WITHOUT_CONTEXT,
            Edit(
                ORDERING,
                "return self.causal_context.find_missing(request.context)",
                "return None",
            ),
        ),
    ),
    tested(
        "cab_delivers_twice",
        "Section 3.3: m is CAB-delivered at most once",
        "tests/unit/protocol/broadcast/test_cab.py",
        CAB,
        "elif self._is_delivered(id):",
        "elif False:",
    ),
    Mutant(
        "skips_predicates_on_weak_arrival",
        "validity: the arrival of a weak request re-evaluates the predicates that wait for it",
        70,
        (
            DELIVER_WITHOUT_CONTEXT,
            Edit(
                ORDERING,
                "self.stack.cab.on_arrived(request.id)",
                "self.stack.cab.on_arrived(request.id) if request.strong else None",
            ),
        ),
    ),
    Mutant(
        "skips_predicates_on_commit",
        "validity: a commit re-evaluates the predicates that wait for a strong request",
        80,
        (
            Edit(
                ORDERING,
                "            self.stack.cab.on_arrived(id)\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "new_leader_drops_earlier_casts",
        "validity: a new leader proposes requests that were CAB-cast before its election",
        20,
        (
            Edit(
                CAB,
                "self.leader.start(self.learner.first_undecided, self._ready)",
                "self.leader.start(self.learner.first_undecided, ())",
            ),
        ),
    ),
    # --- Ω ---------------------------------------------------------------------------------------
    Mutant(
        "never_suspects_a_leader",
        "Section 3.4: eventually no replica trusts a crashed leader",
        180,
        (
            Edit(
                OMEGA,
                "and self._shared.ticks - received_at <= self._timeout_ticks[replica]",
                "",
            ),
        ),
    ),
    Mutant(
        "trusts_itself_as_leader",
        "Section 3.4: eventually all replicas trust the same leader",
        20,
        (
            Edit(OMEGA, "self.leader = next(able, None)", "self.leader = self._shared.index"),
            Edit(
                OMEGA,
                "if owner is not None and self._can_lead(owner):",
                "if owner == self._shared.index:",
            ),
        ),
    ),
)
