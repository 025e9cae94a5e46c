"""Deliberate faults of the protocol: each breaks one rule, and the fuzzer must notice.

A mutant is one or more edits of the source, applied to a copy of it. A fuzzer that lets one of them
pass within the stated number of seeds has lost an eye. Mutants that no run can tell from the
original are not listed: proposing before the predicate holds, say, is wasteful and not wrong; and a
deferred vote that is dropped is asked for again. Nor is one that thousands of seeds did not tell,
and that tests turned by hand hold instead: installing what was executed before a snapshot
(`tests/unit/schemes`).
"""

from typing import NamedTuple


class Edit(NamedTuple):
    file: str
    """Relative to the package."""
    before: str
    """Occurs exactly once in the file."""
    after: str


class Mutant(NamedTuple):
    name: str
    rule: str
    """The rule that it breaks."""
    seeds: int
    """It must be caught by a seed below."""
    edits: tuple[Edit, ...]
    scheme: str = "basic"
    """The one that is run; `both` compares two of them."""
    first: int = 0
    step: int = 1
    """Of the seeds, those from `first` on, each so many after the one before."""


BASIC = "schemes/basic.py"
ORDERING = "schemes/core/ordering.py"
ANSWERS = "schemes/core/responses.py"
SETTLED = "schemes/core/stable_prefix.py"
UNDO = "execution/undo.py"
UNSTABLE = "schemes/core/ordering.py"
UNTOLD = "schemes/core/responses.py"
BROADCASTS = "protocol/stack.py"
COMPACTION = "protocol/checkpoint/compaction.py"
CAB = "protocol/broadcast/cab.py"
CLOCK = "protocol/order.py"
DOTS = "protocol/ids/version_vector.py"
GOSSIP = "protocol/broadcast/reliable.py"
OMEGA = "protocol/consensus/omega.py"
ORDER = "protocol/order.py"
REQUEST = "protocol/request.py"
ACCEPTOR = "protocol/consensus/acceptor.py"
LEADER = "protocol/consensus/leader.py"
LEARNER = "protocol/consensus/learner.py"

DELIVER_WITHOUT_CONTEXT = Edit(
    GOSSIP, "if request.context is None:\n            return False", "return False"
)
"""Two guards wait for a causal context: the broadcast, to be quick, and the predicate, to be right.
Without the second the first would hide it."""

MUTANTS: tuple[Mutant, ...] = (
    # --- acceptor: never against a promise, never what it cannot vouch for -----------------------
    Mutant(
        "vote_before_predicate",
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
        "accept_below_promise",
        "an acceptor never votes below the ballot it promised",
        100,
        (Edit(ACCEPTOR, "if message.ballot < self.promised:", "if False:"),),
    ),
    Mutant(
        "promise_hides_a_value",
        "a promise tells of every value that was accepted",
        60,
        (Edit(ACCEPTOR, "if each >= first)", "if each > first)"),),
    ),
    Mutant(
        "accepted_value_not_persisted",
        "an accepted value is on disk before the vote for it is told",
        180,
        (Edit(ACCEPTOR, "self._outbox.records.append(Accepted(value))", "pass"),),
    ),
    Mutant(
        "accepted_values_forgotten_on_restart",
        "an acceptor that restarts still knows what it accepted",
        180,
        (
            Edit(
                BROADCASTS,
                "self.cab.restore(found.promised, found.accepted,",
                "self.cab.restore(set_previous.promised, [],",
            ),
        ),
    ),
    Mutant(
        "accepted_value_forgotten_too_early",
        "an accepted value is kept until its instance is decided",
        60,
        (
            Edit(
                ACCEPTOR,
                "for each in [each for each in self.accepted if each < instance]",
                "for each in [each for each in self.accepted if each <= instance]",
            ),
        ),
    ),
    Mutant(
        "promise_forgotten_on_restart",
        "an acceptor that restarts still knows what it promised",
        180,
        (
            Edit(
                BROADCASTS,
                "self.cab.restore(found.promised, found.accepted,",
                "self.cab.restore(NO_BALLOT, set_previous.accepted,",
            ),
        ),
    ),
    Mutant(
        "promise_taken_back",
        "an acceptor never promises a lower ballot than before",
        20,
        (
            Edit(ACCEPTOR, "if prepare.ballot < self.promised:", "if False:"),
            Edit(ACCEPTOR, "if ballot > self.promised:", "if ballot != self.promised:"),
        ),
    ),
    Mutant(
        "deferred_vote_of_old_ballot",
        "a deferred vote is void once a higher ballot is promised",
        220,
        (Edit(ACCEPTOR, "if deferred.ballot < self.promised:", "if False:"),),
    ),
    # --- learner ---------------------------------------------------------------------------------
    Mutant(
        "majority_of_votes_off_by_one",
        "a batch is decided by the votes of a majority",
        100,
        (Edit(LEARNER, "< self._settings.majority:", "< self._settings.majority - 1:"),),
    ),
    Mutant(
        "votes_of_ballots_added_up",
        "the votes that decide a batch are votes in one ballot",
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
        "decisions_under_other_numbers",
        "one batch is decided in an instance, wherever one asks",
        40,
        (Edit(LEARNER, "Decisions(first, batches)", "Decisions(first + 1, batches)"),),
    ),
    Mutant(
        "never_catches_up",
        "agreement: what one replica CAB-delivers, all correct ones deliver",
        40,
        (Edit(LEARNER, "self._outbox.sends.append(Send((peer,), CatchUp(first)))", "pass"),),
    ),
    # --- leader ----------------------------------------------------------------------------------
    Mutant(
        "majority_of_promises_off_by_one",
        "a leader proposes once a majority promised its ballot",
        40,
        (Edit(LEADER, ">= self._settings.majority", ">= self._settings.majority - 1"),),
    ),
    Mutant(
        "accepted_values_not_recovered",
        "a new leader proposes again what may have been decided",
        100,
        (Edit(LEADER, "elif instance in recovered:", "elif False:"),),
    ),
    Mutant(
        "lowest_ballot_recovered",
        "of what was accepted in an instance, the value of the highest ballot is proposed again",
        600,
        (Edit(LEADER, "known.ballot < value.ballot", "known.ballot > value.ballot"),),
    ),
    Mutant(
        "gap_not_filled",
        "a new leader closes the gaps between what it recovers",
        600,
        (Edit(LEADER, "self._propose(instance, ())", "pass"),),
    ),
    Mutant(
        "leads_without_decisions_of_others",
        "a leader knows what those who promised know to be decided",
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
        "outbid_leader_stays",
        "validity: a leader that was outbid prepares a new ballot when it is trusted again",
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
        "recovered_instance_used_again",
        "a leader proposes one batch in an instance of its ballot",
        100,
        (Edit(LEADER, "self._next_instance = end", "self._next_instance = start"),),
    ),
    Mutant(
        "accept_never_repeated",
        "validity: a lost proposal is made again until it is decided",
        160,
        (Edit(LEADER, "self._send_accept(instance, flight.batch)", "pass"),),
    ),
    Mutant(
        "prepare_never_repeated",
        "validity: a lost prepare is repeated until a majority promised",
        160,
        (Edit(LEADER, "self._send(waiting_for, self._prepare)", "pass"),),
    ),
    # --- conditional atomic broadcast ------------------------------------------------------------
    Mutant(
        "deliver_before_predicate",
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
        "context_never_waited_for",
        "lines 10-14: checkDep asks for the whole causal context, however requests arrive",
        40,
        (
            DELIVER_WITHOUT_CONTEXT,
            Edit(
                ORDERING,
                "return self._causal_context.find_missing(request.context)",
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
        "weak_arrival_wakes_nobody",
        "validity: a predicate that has become true is noticed",
        70,
        (
            DELIVER_WITHOUT_CONTEXT,
            Edit(
                ORDERING,
                "self._stack.on_arrived(request.id)",
                "self._stack.on_arrived(request.id) if request.strong else None",
            ),
        ),
    ),
    Mutant(
        "commit_wakes_nobody",
        "validity: a predicate waits for strong requests of the context too",
        80,
        (
            Edit(
                ORDERING,
                "            self._stack.on_arrived(id)\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "new_leader_forgets_offers",
        "validity: what was CAB-cast before a leader leads is proposed too",
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
        "nobody_is_ever_suspected",
        "Section 3.4: eventually a leader that crashed is trusted by nobody",
        180,
        (
            Edit(
                OMEGA,
                "heard_at is not None and self._ticks - heard_at <= self._timeout_ticks[replica]",
                "heard_at is not None",
            ),
        ),
    ),
    Mutant(
        "everybody_trusts_itself",
        "Section 3.4: eventually all trust the same leader",
        20,
        (
            Edit(OMEGA, "self.leader = next(able, None)", "self.leader = self._index"),
            Edit(
                OMEGA,
                "if owner is not None and self._can_lead(owner):",
                "if owner == self._index:",
            ),
        ),
    ),
    # --- reliable broadcast ----------------------------------------------------------------------
    Mutant(
        "no_anti_entropy",
        "Section 3.2, agreement: what one replica has, all get",
        20,
        (Edit(GOSSIP, "Summary(self.received.freeze())", "Summary(Dots())"),),
    ),
    Mutant(
        "anti_entropy_skips_holes",
        "agreement: also what is missing between others",
        30,
        (
            Edit(
                GOSSIP,
                "self.received.missing(known)",
                """Dots(
                    {
                        replica: (self.received.last(replica) + 1, ranges[-1])
                        for replica, ranges in known.ranges.items()
                        if self.received.last(replica) + 1 < ranges[-1]
                    }
                )""",
            ),
        ),
    ),
    Mutant(
        "delivered_out_of_order",
        "the requests of one replica are delivered in its order",
        20,
        (
            Edit(
                GOSSIP,
                "is_next = event == self.delivered.last_contiguous(replica) + 1",
                "is_next = True",
            ),
        ),
    ),
    Mutant(
        "held_back_dropped",
        "what arrives early is held back, not dropped",
        20,
        (
            Edit(
                GOSSIP,
                "self._probes.hit(Probe.REQUEST_HELD_BACK)",
                "del self._held_back[request.id]",
            ),
        ),
    ),
    Mutant(
        "context_arrival_wakes_nobody",
        "what is held back for its context is delivered once that is here",
        40,
        (Edit(GOSSIP, "for waiting in self._context_waiters.pop(id, ()):", "for waiting in ():"),),
    ),
    Mutant(
        "rb_delivers_twice",
        "Section 3.2, uniform integrity: at most once",
        20,
        (Edit(GOSSIP, "self._probes.hit(Probe.REQUEST_TWICE)", "self._deliver(request)"),),
    ),
    Mutant(
        "requests_forgotten_too_early",
        "a request is kept until every member has it",
        30,
        (Edit(GOSSIP, "everywhere = min(everywhere,", "everywhere = max(everywhere,"),),
    ),
    Mutant(
        "own_request_not_persisted",
        "a request is on disk before its cast leaves",
        20,
        (
            Edit(
                GOSSIP,
                ("self._outbox.records.append(Received(request))\n        if self._cast_targets:"),
                "if self._cast_targets:",
            ),
        ),
    ),
    Mutant(
        "received_request_not_persisted",
        "a request is on disk before anybody hears that it is here",
        60,
        (
            Edit(
                GOSSIP,
                ("self._outbox.records.append(Received(request))\n        self._accept(request)"),
                "self._accept(request)",
            ),
        ),
    ),
    Mutant(
        "event_numbers_from_memory",
        "line 16: an event number is never used twice, after a restart neither",
        40,
        (
            Edit(BROADCASTS, "self._now = 0", "self._now = 0\n        self._issued = 0"),
            Edit(
                BROADCASTS,
                "return Dot(self.index, self.last_event() + 1)",
                "self._issued += 1\n        return Dot(self.index, self._issued)",
            ),
        ),
    ),
    # --- order, clock and causal context ---------------------------------------------------------
    Mutant(
        "clock_ignores_what_it_receives",
        "a clock that runs ahead must not keep its requests out of all contexts (line 19)",
        250,
        (Edit(CLOCK, "self.last = max(self.last, timestamp)", "pass"),),
    ),
    Mutant(
        "clock_goes_back",
        "timestamps of a replica grow (line 17), or program order is lost",
        250,
        (Edit(CLOCK, "self.last = max(self.last + 1, now)", "self.last = now"),),
    ),
    Mutant(
        "order_by_identifier",
        "line 3: requests are ordered by their timestamps",
        20,
        (Edit(REQUEST, "OrderKey(self.timestamp, self.id)", "OrderKey(0, self.id)"),),
    ),
    Mutant(
        "context_with_uncommitted_strong",
        "lines 22 and 30: only weak requests enter the causal context on arrival",
        20,
        (
            Edit(
                ORDERING,
                "if not request.strong:\n            self._causal_context.add(request.id)",
                "self._causal_context.add(request.id)\n        if not request.strong:",
            ),
        ),
    ),
    Mutant(
        "context_without_committed_strong",
        "line 34: a CAB-delivered request enters the causal context",
        20,
        (Edit(ORDERING, "self._causal_context.add(id)", "pass"),),
    ),
    Mutant(
        "context_without_tentative",
        "line 19: only tentative requests that come later are left out",
        20,
        (
            Edit(
                ORDERING,
                "without(each.id for each in later)",
                "without(\n                each.id\n                for each in"
                " (later if operation is NOOP else self._order.tentative())\n            )",
            ),
        ),
    ),
    Mutant(
        "commit_in_order_of_identifiers",
        "lines 49-50: committedExt keeps the order of tentative",
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
        "commit_leaves_one_behind",
        "line 49: committedExt is all of the context that is tentative",
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
        "commit_before_its_context",
        "line 50: committed is committed · committedExt · [r]",
        20,
        (Edit(ORDER, "moved.append(request)", "moved.insert(0, request)"),),
    ),
    Mutant(
        "commit_takes_all_earlier",
        "line 49: committedExt is nothing but the context",
        20,
        (
            Edit(
                ORDER,
                "[self._tentative[id] for id in unstable] if unstable.ranges else []",
                "[each for each in self._tentative.values()"
                " if not each.strong and each.key < request.key]",
            ),
        ),
    ),
    # --- execution -------------------------------------------------------------------------------
    Mutant(
        "insert_rolls_nothing_back",
        "line 41: what was executed and comes after an inserted request is rolled back",
        20,
        (Edit(BASIC, "        self._adjust_execution(kept)\n", ""),),
    ),
    Mutant(
        "insert_keeps_one_too_many",
        "lines 42-44: inOrder is no more than the longest common prefix",
        40,
        (
            Edit(
                BASIC,
                "        self._adjust_execution(kept)\n",
                "        self._adjust_execution(min(kept + 1, len(self._executed)))\n",
            ),
        ),
    ),
    Mutant(
        "commit_rolls_nothing_back",
        "lines 42-47: what was executed in another order is rolled back",
        20,
        (Edit(BASIC, "self._adjust_execution(min(kept, len(self._executed)))", "pass"),),
    ),
    Mutant(
        "overtaken_execution_installed",
        "line 62: a request is executed after all that comes before it",
        40,
        (
            Edit(
                BASIC,
                "elif self._to_be_rolled_back or self._next_to_execute() is not running.request:",
                "elif False:",
            ),
        ),
    ),
    Mutant(
        "undone_in_forward_order",
        "line 45: toBeRolledBack is reversed, the newest comes first",
        20,
        (
            Edit(BASIC, ".extend(reversed(out_of_order))", ".extend(out_of_order)"),
            Edit(
                UNDO,
                "_, undo_map = self.undo_log.popitem()",
                "undo_map = self.undo_log.pop(request.id)",
            ),
            Edit(UNDO, "assert newest == request.id,", "assert newest,"),
        ),
    ),
    Mutant(
        "absent_undone_as_none",
        "Algorithm 2, line 10: ⊥ is undone as ⊥",
        20,
        (Edit(UNDO, "undo_map[key] = self.read(key)", "undo_map[key] = self.db.get(key)"),),
    ),
    Mutant(
        "one_write_undone",
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
    # --- answers ---------------------------------------------------------------------------------
    Mutant(
        "stable_though_reordered",
        "lines 55-57: the tentative answer is stable only if the order matched",
        20,
        (
            Edit(
                BASIC,
                "if awaiting is not None and len(self._order.committed) <= len(self._executed):",
                "if awaiting is not None and awaiting.outcome is not None:",
            ),
        ),
    ),
    Mutant(
        "stable_is_the_first_tentative",
        "line 70: the last tentative response is kept",
        40,
        (
            Edit(
                ANSWERS,
                "            awaiting.outcome = outcome\n        else:",
                "            awaiting.outcome = awaiting.outcome or outcome\n        else:",
            ),
        ),
    ),
    Mutant(
        "stable_before_committed",
        "line 72: a response is stable once the request is on committed",
        20,
        (
            Edit(
                BASIC,
                "elif len(self._executed) >= len(self._order.committed):",
                "elif len(self._executed) > len(self._order.committed):",
            ),
        ),
    ),
    Mutant(
        "weak_answered_again",
        "lines 66-68: a weak operation is answered once",
        20,
        (
            Edit(
                ANSWERS,
                "self._await_final(id, self.awaiting.pop(id), outcome)",
                "self._await_final(id, awaiting, outcome)",
            ),
            Edit(ANSWERS, "assert id not in self.awaiting,", "assert True,"),
        ),
    ),
    Mutant(
        "weak_answered_with_rubbish",
        "Section 4.3: an answer is what some order of the requests gives",
        20,
        (
            Edit(
                ANSWERS,
                '"""Lines 67-68, and 70-71."""',
                "outcome = outcome if awaiting.strong else Outcome('rubbish')",
            ),
        ),
    ),
    Mutant(
        "final_is_what_was_told",
        "the final answer to a weak operation is that of the committed order",
        20,
        (
            Edit(
                ANSWERS,
                "Response(id, told.session, ResponseKind.FINAL, outcome, changed)",
                "Response(id, told.session, ResponseKind.FINAL, told.outcome, False)",
            ),
        ),
    ),
    Mutant(
        "change_never_told",
        "the final answer to a weak operation says whether it differs from what was told",
        20,
        (
            Edit(
                ANSWERS,
                "Response(id, told.session, ResponseKind.FINAL, outcome, changed)",
                "Response(id, told.session, ResponseKind.FINAL, outcome, False)",
            ),
        ),
    ),
    Mutant(
        "never_answered_finally",
        "the client of a weak operation learns how it ended",
        20,
        (
            Edit(
                ANSWERS,
                "            self._respond_final(request.id, outcome)\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "no_strong_noop",
        "Section 4.4: weak requests stabilise without a client's strong one",
        20,
        (Edit(ORDERING, "if wanted and broadcasts", "if False and broadcasts"),),
    ),
    Mutant(
        "one_noop_for_ever",
        "a no-op that is committed is followed by another one when there is more to stabilise",
        40,
        (
            Edit(
                UNSTABLE,
                "(self.last_noop is not None and self.last_noop not in self._committed)",
                "self.last_noop is not None",
            ),
        ),
    ),
)
