"""Mutants of reliable broadcast, order, execution and responses, which the fuzzer must detect.

Thousands of seeds missed one more mutant, and unit tests cover it instead: installing an execution
from before a snapshot (`tests/unit/schemes`).
"""

from tests.mutants.catalogue import (
    BASIC,
    ORDER,
    ORDERING,
    RELIABLE_BROADCAST,
    REQUEST,
    RESPONSES,
    SEQUENTIAL,
    STACK,
    UNDO,
    Edit,
    Mutant,
)

MUTANTS: tuple[Mutant, ...] = (
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
                "self._outbox.records.append(Received(request))\n        self._accept(request, id)",
                "self._accept(request, id)",
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
                "self._tentative_in(unstable) if unstable.ranges else []",
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
                "Response(id, awaited.session, _FINAL, outcome, changed)",
                "Response(id, awaited.session, _FINAL, awaited.outcome, False)",
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
                "Response(id, awaited.session, _FINAL, outcome, changed)",
                "Response(id, awaited.session, _FINAL, outcome, False)",
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
