"""Mutants of the client: retries, failure detection, discovery and blocking calls."""

from tests.mutants.catalogue import MutantWithTests, tested

ROUTER = "client/call_router.py"
ROUTER_TESTS = "tests/unit/client/test_call_router_retries.py"
DEADLINE_TESTS = "tests/unit/client/test_call_router.py"
DETECTOR = "client/failure_detector.py"
DETECTOR_TESTS = "tests/unit/client/test_failure_detector.py"
CONNECTION = "client/replica_connection.py"
CONNECTION_TESTS = "tests/unit/client/test_replica_connection.py"
CALLS = "client/calls.py"
CALL_TESTS = "tests/unit/client/test_calls.py"
BLOCKING = "client/blocking.py"
BLOCKING_TESTS = "tests/cluster/test_client_blocking.py"
ARGUMENTS = "client/arguments.py"
ARGUMENT_TESTS = "tests/unit/client/test_arguments.py"

MUTANTS: tuple[MutantWithTests, ...] = (
    # --- call router ----------------------------------------------------------------------------
    tested(
        "client_retries_in_reverse_order",
        "calls are retried in the order in which they were invoked",
        ROUTER_TESTS,
        ROUTER,
        "self._queue.extendleft(reversed(self._in_flight.values()))",
        "self._queue.extendleft(self._in_flight.values())",
    ),
    tested(
        "client_forgets_the_context_of_sessions",
        "a session continues at a replica that has its calls",
        ROUTER_TESTS,
        ROUTER,
        "            self._extend_session_context(call.message.session, call.id)",
        "            pass",
    ),
    tested(
        "client_keeps_the_first_context_of_a_session",
        "the context of a session grows with each response",
        ROUTER_TESTS,
        ROUTER,
        "            context[replica] = event\n",
        "            context.setdefault(replica, event)\n",
    ),
    tested(
        "client_merges_contexts_without_maximum",
        "merged sessions wait for the latest request of each",
        ROUTER_TESTS,
        ROUTER,
        "                shared[replica] = max(event, shared.get(replica, 0))",
        "                shared[replica] = event",
    ),
    tested(
        "client_reports_retried_calls_as_not_done",
        "a call that another replica may have executed is not reported as not done",
        ROUTER_TESTS,
        ROUTER,
        "is_certain = rejected.is_certain and call.attempts == 1",
        "is_certain = rejected.is_certain",
    ),
    tested(
        "client_moves_uncertain_rejections",
        "a call that may take effect is not retried as a new attempt elsewhere",
        ROUTER_TESTS,
        ROUTER,
        "            and rejected.is_certain\n",
        "",
    ),
    tested(
        "client_asks_the_same_replica_forever",
        "a call that every replica rejected fails",
        ROUTER_TESTS,
        ROUTER,
        "if self._replica_count == 1 or replica in call.rejected_by:",
        "if self._replica_count == 1:",
    ),
    tested(
        "client_exceeds_the_calls_in_flight",
        "at most 512 calls are in flight",
        ROUTER_TESTS,
        ROUTER,
        "if in_flight and number - next(iter(in_flight)) >= IN_FLIGHT_MAX:",
        "if in_flight and number - next(iter(in_flight)) > IN_FLIGHT_MAX:",
    ),
    tested(
        "client_reuses_the_slot_of_a_retried_call",
        "no later call replaces the retained outcome of a retried one",
        ROUTER_TESTS,
        ROUTER,
        "        if self._in_flight:\n            self._reserve_slots(self._in_flight)\n",
        "",
    ),
    tested(
        "client_releases_slots_of_open_retries",
        "slots stay reserved while a retried call is open",
        ROUTER_TESTS,
        ROUTER,
        "if not self._reserved_slots or any(call.attempts for call in self._pending_calls()):",
        "if not self._reserved_slots:",
    ),
    tested(
        "client_loses_queries_for_final_outcomes",
        "the outcome of a call whose replica is lost can be queried",
        ROUTER_TESTS,
        ROUTER,
        "            call.query_outcome = self._outcome_query(call)",
        "            pass",
    ),
    tested(
        "client_closes_sent_calls_as_not_done",
        "a sent call without a response has an unknown outcome",
        ROUTER_TESTS,
        ROUTER,
        "call.fail(Unknown(message) if call.attempts else NotDone(reason, message))",
        "call.fail(NotDone(reason, message))",
    ),
    tested(
        "client_ignores_an_earlier_deadline",
        "each call times out at its own deadline",
        DEADLINE_TESTS,
        ROUTER,
        "        if deadline < self._next_check:",
        "        if self._timer is None:",
    ),
    tested(
        "client_stops_checking_deadlines",
        "later deadlines are checked after a call timed out",
        DEADLINE_TESTS,
        ROUTER,
        "            elif call.deadline < earliest:\n                earliest = call.deadline\n",
        "",
    ),
    # --- failure detector -----------------------------------------------------------------------
    tested(
        "client_probes_without_open_calls",
        "an idle client sends no probes",
        f"{DETECTOR_TESTS}::test_probes_are_sent_only_with_open_calls_and_other_replicas",
        DETECTOR,
        "                or not self._has_open_calls()\n",
        "",
    ),
    tested(
        "client_abandons_a_replica_that_reports_its_status",
        "a replica that answers a status request is kept",
        f"{DETECTOR_TESTS}::test_a_replica_that_answers_status_requests_is_kept_without_probes",
        DETECTOR,
        "return connection.chunks_received != chunks or connection.closed.done()",
        "return connection.closed.done()",
    ),
    tested(
        "client_accepts_answers_to_earlier_probes",
        "an answer counts for the probe that it repeats",
        f"{DETECTOR_TESTS}::test_an_answer_to_an_earlier_probe_does_not_count",
        DETECTOR,
        "== PROBE_RESPONSE_PREFIX + self._nonce_bytes():",
        "!= b'':",
    ),
    # --- discovery ------------------------------------------------------------------------------
    tested(
        "client_prefers_a_joining_replica",
        "a joining replica is chosen only without alternatives",
        CONNECTION_TESTS,
        CONNECTION,
        "                if not welcome.not_ready_reason:",
        "                if connection:",
    ),
    tested(
        "client_leaks_connections_to_joining_replicas",
        "discovery closes connections that it does not return",
        CONNECTION_TESTS,
        CONNECTION,
        "                else:\n                    connection.close()\n            chosen",
        "            chosen",
    ),
    tested(
        "client_spends_the_whole_time_on_one_address",
        "a silent replica takes a share of the discovery timeout",
        CONNECTION_TESTS,
        CONNECTION,
        "self.timeout_s / len(self.addresses))",
        "self.timeout_s)",
    ),
    tested(
        "client_starts_at_the_first_address_again",
        "discovery continues at the next address",
        f"{CONNECTION_TESTS}::test_a_joining_replica_is_chosen_only_without_alternatives",
        CONNECTION,
        "                self._next_index += 1\n",
        "",
    ),
    tested(
        "client_mistakes_every_error_for_no_listener",
        "only refused connections and unknown names shorten the search",
        CONNECTION_TESTS,
        CONNECTION,
        "return _error_numbers(error) == {errno.ECONNREFUSED}",
        "return errno.ECONNREFUSED in _error_numbers(error)",
    ),
    # --- calls, arguments, blocking client ------------------------------------------------------
    tested(
        "client_drops_defaults_before_a_named_argument",
        "arguments by name keep their positions",
        "tests/unit/client/test_operations.py",
        "execution/parameters.py",
        "        elif position < last:\n",
        "        elif position < 0:\n",
    ),
    tested(
        "client_hides_operations_from_completion",
        "`dir` lists the operations",
        "tests/unit/client/test_proxies.py",
        "client/proxies.py",
        "        return sorted({*super().__dir__(), *names})",
        "        return sorted(super().__dir__())",
    ),
    tested(
        "client_apologises_for_a_changed_error",
        "an error is an apology only if an earlier response was a success",
        CALL_TESTS,
        CALLS,
        "changed=response is not first and first.error is None",
        "changed=response.changed",
    ),
    tested(
        "client_returns_the_tentative_response_of_strong_calls",
        "awaiting a strong call returns its stable response",
        CALL_TESTS,
        CALLS,
        "        if is_last or not self.message.strong:",
        "        if is_last or self.message.strong is not None:",
    ),
    tested(
        "client_waits_for_more_responses_to_a_local_read",
        "a local read is complete after its only response",
        CALL_TESTS,
        CALLS,
        "self.id is not None and self.id.event < 0",
        "self.id is not None and self.id.event < -1",
    ),
    tested(
        "client_hides_recovered_changes",
        "a final outcome from another replica states whether it changed",
        CALL_TESTS,
        CALLS,
        "changed = not final.same_as(Outcome(first.value, first.error))",
        "changed = False",
    ),
    tested(
        "client_accepts_a_timeout_of_zero",
        "a timeout is positive",
        ARGUMENT_TESTS,
        ARGUMENTS,
        "if not 0 < value < math.inf:",
        "if not 0 <= value < math.inf:",
    ),
    tested(
        "client_swaps_the_parts_of_an_id",
        "an id is the replica, then the event",
        ARGUMENT_TESTS,
        ARGUMENTS,
        "return Dot(int(parts[1]), int(parts[2]))",
        "return Dot(int(parts[2]), int(parts[1]))",
    ),
    tested(
        "blocking_client_repeats_no_response",
        "iteration returns all responses of a call",
        BLOCKING_TESTS,
        BLOCKING,
        "        while (response := self._database.run_coroutine(next_response())) is not None:",
        "        if (response := self._database.run_coroutine(next_response())) is not None:",
    ),
    tested(
        "blocking_client_raises_the_call_of_its_thread",
        "the call of an error belongs to the blocking connection",
        BLOCKING_TESTS,
        BLOCKING,
        "            if isinstance(error.call, Call):",
        "            if error.call is None:",
    ),
    tested(
        "blocking_client_waits_without_a_thread",
        "a call on a closed client fails at once",
        BLOCKING_TESTS,
        BLOCKING,
        "            if not self._thread.is_alive():\n                raise not_connected_error()",
        "            if not self._thread.is_alive():\n                return None  # type: ignore",
    ),
)
