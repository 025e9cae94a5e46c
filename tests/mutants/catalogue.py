"""Mutants of the protocol: each breaks one rule, and the fuzzer must detect it.

A mutant is one or more edits of the source, applied to a copy of it. A fuzzer that misses a mutant
within the stated number of seeds has lost a capability.

Mutants that no run can distinguish from the original are not listed. Proposing before the predicate
holds, for example, is wasteful but correct, and a dropped deferred vote is requested again.
Thousands of seeds missed one more mutant, and unit tests cover it instead: installing an execution
from before a snapshot (`tests/unit/schemes`).
"""

from typing import NamedTuple, TypeAlias


class Edit(NamedTuple):
    file: str
    """Path relative to the package."""
    before: str
    """Source text that occurs exactly once in the file."""
    after: str


class Mutant(NamedTuple):
    name: str
    rule: str
    """Rule that the mutant breaks."""
    seeds: int
    """Upper bound (exclusive) of the seeds, one of which must detect the mutant."""
    edits: tuple[Edit, ...]
    scheme: str = "basic"
    """Scheme to run; `differential` compares `creek` with `basic`."""
    first: int = 0
    step: int = 1
    """Distance between two seeds, from `first` on."""


class MutantWithTests(NamedTuple):
    """A mutant that named tests detect, because the fuzzer does not run the code."""

    name: str
    rule: str
    """Rule that the mutant breaks."""
    tests: tuple[str, ...]
    """Test files or tests, relative to the repository, one of which must fail."""
    edits: tuple[Edit, ...]


AnyMutant: TypeAlias = Mutant | MutantWithTests


def tested(
    name: str, rule: str, tests: str | tuple[str, ...], file: str, before: str, after: str
) -> MutantWithTests:
    """Return a mutant with one edit."""
    tests = (tests,) if isinstance(tests, str) else tests
    return MutantWithTests(name, rule, tests, (Edit(file, before, after),))


BASIC = "schemes/basic.py"
ORDERING = "schemes/core/ordering.py"
SEQUENTIAL = "schemes/core/sequential.py"
RESPONSES = "schemes/core/responses.py"
STABLE_PREFIX = "schemes/core/stable_prefix.py"
UNDO = "execution/undo.py"
STACK = "protocol/stack.py"
CAB = "protocol/broadcast/cab.py"
RELIABLE_BROADCAST = "protocol/broadcast/reliable.py"
OMEGA = "protocol/consensus/omega.py"
ORDER = "protocol/order.py"
REQUEST = "protocol/request.py"
ACCEPTOR = "protocol/consensus/acceptor.py"
LEADER = "protocol/consensus/leader.py"
LEARNER = "protocol/consensus/learner.py"

DELIVER_WITHOUT_CONTEXT = Edit(
    RELIABLE_BROADCAST, "if request.context is None:\n            return False", "return False"
)
"""Removal of the broadcast's guard. Both the broadcast, for speed, and the predicate, for
correctness, wait for a causal context, so the guard would hide a fault of the predicate."""

MUTANTS: tuple[Mutant, ...] = (
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
        100,
        (
            Edit(
                LEADER,
                "if self.phase is not LeaderPhase.FOLLOWING and ballot > self.ballot:",
                "if False:",
            ),
        ),
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
    Mutant(
        "cab_delivers_twice",
        "Section 3.3: m is CAB-delivered at most once",
        100,
        (Edit(CAB, "if self._is_delivered(id):", "if False:"),),
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
    # --- reliable broadcast ----------------------------------------------------------------------
    Mutant(
        "sends_empty_summaries",
        "Section 3.2, agreement: a request that one replica has reaches all replicas",
        20,
        (Edit(RELIABLE_BROADCAST, "Summary(self.received.freeze())", "Summary(Dots())"),),
    ),
    Mutant(
        "anti_entropy_skips_gaps",
        "agreement: anti-entropy also repairs gaps between received requests",
        30,
        (
            Edit(
                RELIABLE_BROADCAST,
                "self.received.missing(summary)",
                """Dots(
                    {
                        replica: (self.received.last(replica) + 1, ranges[-1])
                        for replica, ranges in summary.ranges.items()
                        if self.received.last(replica) + 1 < ranges[-1]
                    }
                )""",
            ),
        ),
    ),
    Mutant(
        "delivers_out_of_order",
        "requests of one replica are delivered in the order of their events",
        20,
        (
            Edit(
                RELIABLE_BROADCAST,
                "is_next = event == self.delivered.last_contiguous(replica) + 1",
                "is_next = True",
            ),
        ),
    ),
    Mutant(
        "drops_early_requests",
        "a request that arrives early is held back, not dropped",
        20,
        (
            Edit(
                RELIABLE_BROADCAST,
                "self._probes.hit(Probe.REQUEST_HELD_BACK)",
                "del self._held_back[request.id]",
            ),
        ),
    ),
    Mutant(
        "never_delivers_requests_held_for_context",
        "a request held back for its context is delivered once the context has arrived",
        40,
        (
            Edit(
                RELIABLE_BROADCAST,
                "for waiter in self._context_waiters.pop(id, ()):",
                "for waiter in ():",
            ),
        ),
    ),
    Mutant(
        "rb_delivers_twice",
        "Section 3.2, uniform integrity: a request is RB-delivered at most once",
        20,
        (
            Edit(
                RELIABLE_BROADCAST,
                "self._probes.hit(Probe.REQUEST_DUPLICATED)",
                "self._deliver(request)",
            ),
        ),
    ),
    Mutant(
        "discards_requests_before_all_have_them",
        "a request is retained until every member has it",
        30,
        (Edit(RELIABLE_BROADCAST, "common = min(common,", "common = max(common,"),),
    ),
    Mutant(
        "casts_request_before_it_is_durable",
        "an issued request is durable before it is cast",
        20,
        (
            Edit(
                RELIABLE_BROADCAST,
                ("self._outbox.records.append(Received(request))\n        self._outbox.send("),
                "self._outbox.send(",
            ),
        ),
    ),
    Mutant(
        "reports_request_before_it_is_durable",
        "a received request is durable before the replica reports it",
        60,
        (
            Edit(
                RELIABLE_BROADCAST,
                ("self._outbox.records.append(Received(request))\n        self._accept(request)"),
                "self._accept(request)",
            ),
        ),
    ),
    Mutant(
        "reuses_event_numbers_after_restart",
        "line 16: an event number is never reused, not even after a restart",
        40,
        (
            Edit(
                STACK,
                "self.is_removed = False",
                "self.is_removed = False\n        self._issued = 0",
            ),
            Edit(
                STACK,
                "return Dot(self.index, self.last_event() + 1)",
                "self._issued += 1\n        return Dot(self.index, self._issued)",
            ),
        ),
    ),
    # --- order, clock and causal context ---------------------------------------------------------
    Mutant(
        "clock_ignores_received_timestamps",
        "line 19: requests from a fast clock must not stay out of all causal contexts",
        250,
        (Edit(ORDER, "self.last = max(self.last, timestamp)", "pass"),),
    ),
    Mutant(
        "timestamps_go_backwards",
        "line 17: the timestamps of a replica grow, which preserves program order",
        250,
        (Edit(ORDER, "self.last = max(self.last + 1, now)", "self.last = now"),),
    ),
    Mutant(
        "orders_by_identifier",
        "line 3: requests are ordered by their timestamps",
        20,
        (Edit(REQUEST, "OrderKey(self.timestamp, self.id)", "OrderKey(0, self.id)"),),
    ),
    Mutant(
        "context_includes_uncommitted_strong",
        "lines 22 and 30: only weak requests enter the causal context on arrival",
        20,
        (
            Edit(
                ORDERING,
                "if not request.strong:\n            self.causal_context.add(request.id)",
                "self.causal_context.add(request.id)\n        if not request.strong:",
            ),
        ),
    ),
    Mutant(
        "context_omits_committed_strong",
        "line 34: a CAB-delivered request enters the causal context",
        20,
        (Edit(ORDERING, "self.causal_context.add(id)", "pass"),),
    ),
    Mutant(
        "context_omits_tentative",
        "line 19: only later tentative requests are excluded from the context",
        20,
        (
            Edit(
                ORDERING,
                "without(each.id for each in later)",
                "without(\n                each.id\n                for each in"
                " (later if operation is NOOP else self._order.tentative)\n            )",
            ),
        ),
    ),
    Mutant(
        "commits_in_identifier_order",
        "line 49: committedExt keeps the order of tentative",
        20,
        (
            Edit(
                ORDER,
                ("        if len(moved) > 1:\n            moved.sort(key=_order_key)\n"),
                "",
            ),
        ),
    ),
    Mutant(
        "leaves_context_request_tentative",
        "line 49: committedExt is the whole tentative part of the context",
        20,
        (
            Edit(
                ORDER,
                "            moved.sort(key=_order_key)\n",
                ("            moved.sort(key=_order_key)\n            del moved[0]\n"),
            ),
        ),
    ),
    Mutant(
        "commits_request_before_its_context",
        "line 51: committed is committed · committedExt · [r]",
        20,
        (Edit(ORDER, "moved.append(request)", "moved.insert(0, request)"),),
    ),
    Mutant(
        "commits_requests_outside_context",
        "line 49: committedExt holds no request outside the context",
        20,
        (
            Edit(
                ORDER,
                "[self._tentative_by_id[id] for id in unstable] if unstable.ranges else []",
                "[each for each in self.tentative if not each.strong and each.key < request.key]",
            ),
        ),
    ),
    # --- execution -------------------------------------------------------------------------------
    Mutant(
        "insertion_rolls_nothing_back",
        "line 41: executed requests after an inserted one are rolled back",
        20,
        (Edit(SEQUENTIAL, "        self._adjust_execution(in_order)\n", ""),),
    ),
    Mutant(
        "insertion_keeps_one_request_too_many",
        "line 43: inOrder is at most the longest common prefix",
        40,
        (
            Edit(
                SEQUENTIAL,
                "        self._adjust_execution(in_order)\n",
                "        self._adjust_execution(min(in_order + 1, len(self.executed)))\n",
            ),
        ),
    ),
    Mutant(
        "commit_rolls_nothing_back",
        "lines 42-47: requests executed in another order are rolled back",
        20,
        (Edit(SEQUENTIAL, "self._adjust_execution(min(in_order, len(self.executed)))", "pass"),),
    ),
    Mutant(
        "installs_overtaken_execution",
        "line 62: a request is executed after all its predecessors",
        40,
        (
            Edit(
                SEQUENTIAL,
                "elif self.to_be_rolled_back or self.next_to_execute() is not running.request:",
                "elif False:",
            ),
        ),
    ),
    Mutant(
        "rolls_back_in_execution_order",
        "line 47: toBeRolledBack is in reverse execution order",
        20,
        (
            Edit(SEQUENTIAL, ".extend(reversed(out_of_order))", ".extend(out_of_order)"),
            Edit(
                UNDO,
                "_, undo_map = self.undo_log.popitem()",
                "undo_map = self.undo_log.pop(request.id)",
            ),
            Edit(UNDO, "assert newest == request.id,", "assert newest,"),
        ),
    ),
    Mutant(
        "restores_absent_as_none",
        "Algorithm 2, line 10: ⊥ is restored as ⊥",
        20,
        (Edit(UNDO, "undo_map[key] = self.read(key)", "undo_map[key] = self.db.get(key)"),),
    ),
    Mutant(
        "restores_one_register_only",
        "Algorithm 2, lines 17-18: every register of the undo map is restored",
        30,
        (
            Edit(
                UNDO,
                "for key, value in undo_map.items():  # lines 17-18",
                "for key, value in list(undo_map.items())[:1]:",
            ),
        ),
    ),
    # --- responses -------------------------------------------------------------------------------
    Mutant(
        "stable_response_despite_reordering",
        "lines 55-57: the tentative response becomes stable only if the order matched",
        20,
        (
            Edit(
                BASIC,
                "if awaiting is not None and len(self._order.committed)"
                " <= len(self._execution.executed):",
                "if awaiting is not None and awaiting.outcome is not None:",
            ),
        ),
    ),
    Mutant(
        "stable_response_is_first_tentative",
        "line 70: the last tentative response is stored",
        40,
        (
            Edit(
                RESPONSES,
                "        awaiting.outcome = outcome\n",
                "        awaiting.outcome = awaiting.outcome or outcome\n",
            ),
        ),
    ),
    Mutant(
        "stable_response_before_commit",
        "line 72: a response is stable once its request is on committed",
        20,
        (
            Edit(
                BASIC,
                "if awaiting.strong and self._ordering.is_committed(head.id):",
                "if awaiting.strong and len(self._execution.executed) - 1"
                " <= len(self._order.committed):",
            ),
        ),
    ),
    Mutant(
        "responds_twice_to_weak_request",
        "lines 66-68: a weak operation gets one response",
        20,
        (
            Edit(
                RESPONSES,
                "self._awaiting_final[id] = self.awaiting.pop(id)",
                "self._awaiting_final[id] = awaiting",
            ),
            Edit(RESPONSES, "assert id not in self.awaiting,", "assert True,"),
        ),
    ),
    Mutant(
        "responds_with_arbitrary_value",
        "Section 4.3: a response results from some order of the requests",
        20,
        (
            Edit(
                RESPONSES,
                '"""Lines 67-68, and 70-71."""',
                "outcome = outcome if awaiting.strong else Outcome('arbitrary')",
            ),
        ),
    ),
    Mutant(
        "final_response_repeats_tentative",
        "the final response to a weak operation results from the committed order",
        20,
        (
            Edit(
                RESPONSES,
                "Response(id, awaited.session, ResponseKind.FINAL, outcome, changed)",
                "Response(id, awaited.session, ResponseKind.FINAL, awaited.outcome, False)",
            ),
        ),
    ),
    Mutant(
        "final_response_hides_change",
        "the final response to a weak operation states whether it differs from the tentative one",
        20,
        (
            Edit(
                RESPONSES,
                "Response(id, awaited.session, ResponseKind.FINAL, outcome, changed)",
                "Response(id, awaited.session, ResponseKind.FINAL, outcome, False)",
            ),
        ),
    ),
    Mutant(
        "omits_final_response",
        "the client of a weak operation gets a final response",
        20,
        (
            Edit(
                RESPONSES,
                "            return self._respond_final(request.id, outcome)\n",
                "            return None\n",
            ),
        ),
    ),
    Mutant(
        "issues_no_strong_noop",
        "Section 4.4: weak requests stabilise without a client's strong request",
        20,
        (Edit(ORDERING, "if noop_due and stack", "if False and stack"),),
    ),
    Mutant(
        "issues_only_one_noop",
        "after a no-op is committed, another one stabilises the remaining requests",
        40,
        (
            Edit(
                ORDERING,
                "(self.last_noop is not None and self.last_noop not in self._committed)",
                "self.last_noop is not None",
            ),
        ),
    ),
)
