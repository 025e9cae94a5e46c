"""Mutants of the checkers: each misses a class of violations, or finds one in a legal history.

A checker that reports nothing makes every run of the fuzzer pass, so only tests of known-bad
histories detect these mutants.
"""

from tests.mutants.catalogue import Edit, MutantWithTests

CAB = "broadcast/conditional_atomic_broadcast"
COMMIT_ORDER = "commit_order"
CONVERGENCE = "convergence"
FLUCTUATING = "fluctuating_consistency"
NO_LOSS = "broadcast/no_loss"
PAXOS = "broadcast/paxos_safety"
PREFIX_ORDER = "prefix_order"
REAL_TIME = "real_time"
RELIABLE = "broadcast/reliable_broadcast"
REPLAY = "replay"
RESPONSES = "responses"
RUN_INDEX = "run_index"
SESSION_ORDER = "session_order"
ALL = "registry"


def _mutant(
    name: str, rule: str, module: str, before: str, after: str, tests: str = ""
) -> MutantWithTests:
    folder, _, tested = (tests or module).rpartition("/")
    path = "/".join(filter(None, ("tests/unit/checkers", folder, f"test_{tested}.py")))
    return MutantWithTests(name, rule, (path,), (Edit(f"checkers/{module}.py", before, after),))


MUTANTS: tuple[MutantWithTests, ...] = (
    # --- commit_order ---------------------------------------------------------------------------
    _mutant(
        "checker_ignores_commits_beyond_the_context",
        "a weak request is committed only with a strong one whose causal context contains it",
        COMMIT_ORDER,
        "        if id in context:\n",
        "        if not weak.request.strong:\n",
    ),
    _mutant(
        "checker_accepts_a_cut_without_a_majority",
        "only the cut of a decided batch extends a context",
        RUN_INDEX,
        "if self.decides(ballot, *voters[instance, ballot, batch]):",
        "if True:",
        COMMIT_ORDER,
    ),
    _mutant(
        "checker_accepts_later_requests_in_a_cut",
        "a cut has no request later than its strong request",
        COMMIT_ORDER,
        "            if weak.request.key > strong.request.key:\n",
        "            if False:\n",
    ),
    _mutant(
        "checker_accepts_incomplete_cuts",
        "a strong request is committed after all weak requests of its cut",
        COMMIT_ORDER,
        "        if request is None or not request.strong:\n",
        "        if request is None:\n",
    ),
    _mutant(
        "checker_accepts_deliveries_ahead_of_their_cuts",
        "a request is CAB-delivered once its cut is received",
        CAB,
        "        missing = self.received.first_missing_of_cut(self.run.cuts.get(dot, {}))\n",
        "        missing = None\n",
    ),
    _mutant(
        "checker_ignores_order_of_extensions",
        "weak requests that are committed together are in the order of their timestamps",
        COMMIT_ORDER,
        "if weak.request.key > next_weak.request.key:",
        "if weak.request.key[0] > next_weak.request.key[0]:",
    ),
    _mutant(
        "checker_ignores_trailing_weak_commits",
        "a weak request is committed only with a strong one",
        COMMIT_ORDER,
        '    if extension:\n        message = f"{extension[0]',
        '    if extension[1:]:\n        message = f"{extension[0]',
    ),
    _mutant(
        "checker_ignores_uncommitted_deliveries",
        "every CAB-delivered request is committed in a quiescent run",
        COMMIT_ORDER,
        "if run.history.quiescent and len(committed) != len(run.cab_order):",
        "if run.history.quiescent and len(committed) > len(run.cab_order):",
    ),
    # --- convergence ----------------------------------------------------------------------------
    _mutant(
        "checker_accepts_a_run_without_final_states",
        "a run without final states is not live",
        CONVERGENCE,
        "if not run.history.quiescent or not run.history.final_states:",
        "if not run.history.quiescent:",
    ),
    _mutant(
        "checker_compares_the_first_two_states_only",
        "the final states of all replicas are equal",
        CONVERGENCE,
        "for final in run.history.final_states[1:]:",
        "for final in run.history.final_states[1:2]:",
    ),
    _mutant(
        "checker_forgives_lost_responses",
        "an operation with a response is committed",
        CONVERGENCE,
        "is_durable = record.replica in durable or record.stable is not None",
        "is_durable = record.stable is not None",
    ),
    _mutant(
        "checker_forgives_lost_stable_responses",
        "an operation with a stable response is committed, even if its replica never restarts",
        CONVERGENCE,
        "is_durable = record.replica in durable or record.stable is not None",
        "is_durable = record.replica in durable",
    ),
    _mutant(
        "checker_ignores_lost_observations",
        "a request that a response counts is committed",
        CONVERGENCE,
        "    _check_lost_observations(run)\n    _check_lost_requests",
        "    _check_lost_requests",
    ),
    _mutant(
        "checker_ignores_lost_requests",
        "a delivered request is committed",
        CONVERGENCE,
        "    _check_lost_observations(run)\n    _check_lost_requests(run)",
        "    _check_lost_observations(run)",
    ),
    _mutant(
        "checker_forgives_removed_replicas",
        "a removed replica hands over its requests",
        CONVERGENCE,
        "{*run.last_logs, *(log.replica for log in run.logs if log.is_removed)}",
        "{*run.last_logs}",
    ),
    # --- fluctuating eventual consistency -------------------------------------------------------
    _mutant(
        "checker_executes_the_stable_prefix_only",
        "a tentative response is the outcome of its whole observed order",
        FLUCTUATING,
        "        machine.apply(request)\n    expected",
        "    expected",
    ),
    _mutant(
        "checker_accepts_a_request_counted_twice",
        "an observed order counts each request once",
        FLUCTUATING,
        "if dot in seen or (index is not None and index < observed.order.settled):",
        "if dot in seen:",
    ),
    _mutant(
        "checker_accepts_orders_against_timestamps",
        "observed requests are in the order of committed, then of their timestamps",
        FLUCTUATING,
        "        if before >= positions[at]:",
        "        if before > positions[at]:",
    ),
    _mutant(
        "checker_accepts_undelivered_observations",
        "an observed order contains only requests that the replica had delivered",
        FLUCTUATING,
        "log.events[at].at_us <= each.response.at_us:",
        "log.events[at].at_us <= each.response.at_us + 1_000_000:",
    ),
    _mutant(
        "checker_accepts_an_early_stable_prefix",
        "a replica has committed the stable prefix of an observed order",
        FLUCTUATING,
        "            if each.order.settled > length:",
        "            if each.order.settled > len(run.committed):",
    ),
    _mutant(
        "checker_ignores_unread_writes",
        "a session reads its own writes",
        FLUCTUATING,
        "        if each.id not in ids and not is_stable:",
        "        if each.id not in ids and index is None:",
    ),
    _mutant(
        "checker_exempts_all_strong_writes",
        "a session reads its own strong writes once they are stable",
        FLUCTUATING,
        "if each.strong and (each.stable is None or each.stable.at_us > record.invoked_us):",
        "if each.strong:",
    ),
    _mutant(
        "checker_ignores_incomplete_orders",
        "a sequential scheme counts every request that was delivered before the cast",
        FLUCTUATING,
        "position is None or position < index:",
        "position is None or position > index:",
    ),
    # --- prefix order ---------------------------------------------------------------------------
    _mutant(
        "checker_accepts_two_requests_at_one_index",
        "all replicas commit the same request at an index",
        PREFIX_ORDER,
        "if run.committed[index] != dot:",
        "if run.committed[index] is None:",
    ),
    _mutant(
        "checker_accepts_a_request_committed_twice",
        "a request is committed at one index",
        PREFIX_ORDER,
        "    _check_duplicates(run)\n    _check_checkpoints",
        "    _check_checkpoints",
    ),
    _mutant(
        "checker_accepts_incomplete_checkpoints",
        "a checkpoint represents all requests before its index",
        PREFIX_ORDER,
        "for dot, problem in chain(problems, surplus):",
        "for dot, problem in surplus:",
    ),
    _mutant(
        "checker_ignores_orders_of_final_states",
        "final states contain the same committed order",
        PREFIX_ORDER,
        "if expected is not None and expected != dot:",
        "if expected is not None and expected == dot and index < 0:",
    ),
    # --- real time and sessions -----------------------------------------------------------------
    _mutant(
        "checker_compares_with_the_last_response_only",
        "a strong operation follows all that had a stable response when it was invoked",
        REAL_TIME,
        "            if stable[at][1] > furthest_position:",
        "            if True:",
    ),
    _mutant(
        "checker_accepts_uncommitted_stable_responses",
        "an operation with a stable response is committed",
        REAL_TIME,
        "if record.stable is not None and run.position_of(record) is None:",
        "if record.stable is None and record.final is not None:",
    ),
    _mutant(
        "checker_exempts_weak_operations_of_stable_schemes",
        "weak operations respect real time if the scheme has stable responses only",
        REAL_TIME,
        "includes_weak = not run.history.guarantees.tentative",
        "includes_weak = False",
    ),
    _mutant(
        "checker_ignores_replica_order",
        "a weak request precedes all later requests of its replica",
        SESSION_ORDER,
        "    _check_replica_order(run)\n    _check_weak",
        "    _check_weak",
    ),
    _mutant(
        "checker_forgives_a_missing_weak_request",
        "a weak request that is not committed precedes no later request of its replica",
        SESSION_ORDER,
        'bound = float("inf") if position is None else position',
        "bound = -1 if position is None else position",
    ),
    _mutant(
        "checker_ignores_strong_session_order",
        "a strong operation with a stable response precedes later operations of its session",
        SESSION_ORDER,
        "    _check_strong_session_order(run)\n\n",
        "\n",
    ),
    # --- replay ---------------------------------------------------------------------------------
    _mutant(
        "checker_equates_numbers_of_different_types",
        "1, 1.0 and True are different values",
        REPLAY,
        "    if type(left) is not type(right):\n        return False\n",
        "",
    ),
    _mutant(
        "checker_ignores_errors_of_outcomes",
        "the error of a response is the one of the sequential execution",
        REPLAY,
        "equal_exactly(left.value, right.value) and left.error == right.error",
        "equal_exactly(left.value, right.value)",
    ),
    _mutant(
        "checker_ignores_changed_flags",
        "the `changed` flag states whether the final response differs",
        REPLAY,
        "if last.changed == equal_outcomes(first.outcome, last.outcome):",
        "if last.changed and equal_outcomes(first.outcome, last.outcome):",
    ),
    _mutant(
        "checker_ignores_final_responses",
        "the final response to a weak operation results from committed",
        REPLAY,
        "if (record.stable or record.final) and run.position_of",
        "if record.stable and run.position_of",
    ),
    _mutant(
        "checker_ignores_final_states",
        "the final state results from committed",
        REPLAY,
        "is_complete = not final.tentative and length == len(run.committed)",
        "is_complete = not final.tentative and length > len(run.committed)",
    ),
    # --- responses ------------------------------------------------------------------------------
    _mutant(
        "checker_accepts_responses_after_the_stable_one",
        "the stable response is the last one",
        RESPONSES,
        "for each in responses[:-1]):",
        "for each in responses[:-2]):",
    ),
    _mutant(
        "checker_accepts_stable_responses_before_commit",
        "a stable or final response follows the commit at its replica",
        RESPONSES,
        "if since_us is None or last.at_us < since_us:",
        "if since_us is None:",
    ),
    _mutant(
        "checker_accepts_unanswered_operations",
        "every operation at a replica that is up gets a response",
        RESPONSES,
        "if (record.replica, record.incarnation) not in up:",
        "if (record.replica, record.incarnation) not in up or not record.responses:",
    ),
    _mutant(
        "checker_accepts_a_missing_final_response",
        "every weak operation in the common order gets a final response",
        RESPONSES,
        "if record.stable is None and record.final is None and not record.is_local:",
        "if record.strong and record.stable is None and not record.is_local:",
    ),
    # --- reliable broadcast ---------------------------------------------------------------------
    _mutant(
        "checker_accepts_gaps_in_deliveries",
        "requests of one origin are delivered in order, without gaps",
        RELIABLE,
        "if dot.event > 1 and Dot(",
        "if dot.event > 2 and Dot(",
    ),
    _mutant(
        "checker_accepts_foreign_casts",
        "only the origin casts a request",
        RELIABLE,
        "if dot.replica != log.replica:",
        "if dot.replica > log.replica:",
    ),
    _mutant(
        "checker_accepts_observed_identifiers_again",
        "an identifier is not reused once a process observed its first request",
        RELIABLE,
        "if first.logged.at_us <= logged.at_us < second.logged.at_us:",
        "if first.logged.at_us <= logged.at_us < first.logged.at_us:",
    ),
    _mutant(
        "checker_accepts_a_restart_without_deliveries",
        "a restarted replica recovers its visible deliveries",
        RELIABLE,
        '        if missing is not None:\n            message = f"replica {new.replica} restarted',
        "        if missing is None:\n            continue\n"
        "        if missing.replica == new.replica:\n"
        '            message = f"replica {new.replica} restarted',
    ),
    # --- Paxos ----------------------------------------------------------------------------------
    _mutant(
        "checker_accepts_promises_that_omit_votes",
        "a promise reports every vote from its first instance on",
        PAXOS,
        "if logged_vote.vote.instance < _first_reported_instance(promise):",
        "if logged_vote.vote.instance <= _first_reported_instance(promise):",
    ),
    _mutant(
        "checker_accepts_votes_below_promises",
        "an acceptor does not vote below its promised ballot",
        PAXOS,
        "if promised is not None and event.ballot < promised[0]:",
        "if promised is not None and event.ballot.round < promised[0].round:",
    ),
    _mutant(
        "checker_accepts_votes_without_promises",
        "a majority promises a ballot before anyone votes in it",
        PAXOS,
        "return [each for each in promises if each.logged.at_us <= at_us]",
        "return list(promises)",
    ),
    _mutant(
        "checker_counts_half_as_a_majority",
        "a majority is more than half of the voters",
        PAXOS,
        "return len(self.run.electorate(ballot)) // 2 + 1",
        "return (len(self.run.electorate(ballot)) + 1) // 2",
    ),
    _mutant(
        "checker_accepts_deliveries_before_votes",
        "a request is CAB-delivered after a majority voted for it",
        PAXOS,
        "each.at_us <= logged.at_us and dot in each.batch",
        "dot in each.batch",
    ),
    # --- no loss and conditional atomic broadcast -----------------------------------------------
    _mutant(
        "checker_accepts_delivery_at_half_of_the_voters",
        "a majority has received a request when it is first CAB-delivered",
        NO_LOSS,
        "if each in holders]) <= len(voters) // 2",
        "if each in holders]) < len(voters) // 2",
    ),
    _mutant(
        "checker_accepts_votes_for_missing_requests",
        "a voter has received the requests of the batch and their causal contexts",
        NO_LOSS,
        "            if missing is not None:\n                part",
        "            if missing is not None and missing != dot:\n                part",
    ),
    _mutant(
        "checker_accepts_incomplete_contexts",
        "a causal context contains all weak requests that precede the request",
        CAB,
        "            if dot not in tentative:",
        "            if dot not in tentative and dot in self.committed:",
    ),
    _mutant(
        "checker_accepts_contexts_with_later_requests",
        "a causal context contains no uncommitted weak request that follows the request",
        CAB,
        "            if dot in context:",
        "            if dot in context and dot in self.committed:",
    ),
    _mutant(
        "checker_accepts_delivery_without_the_context",
        "a request is CAB-delivered after its causal context was received",
        CAB,
        '        if missing is not None:\n            message = (\n                f"{dot} was CAB',
        '        if missing == dot:\n            message = (\n                f"{dot} was CAB',
    ),
    _mutant(
        "checker_accepts_undelivered_strong_requests",
        "every strong request that a replica has is CAB-delivered in the end",
        CAB,
        "is_pending = cast.request.strong and dot not in delivered and",
        "is_pending = cast.request.strong and len(casts) > 1 and dot not in delivered and",
    ),
    # --- shared index and registry --------------------------------------------------------------
    _mutant(
        "checker_reads_lost_events_as_visible",
        "a lost commit does not contradict a visible one",
        RUN_INDEX,
        "covered_length:\n                        dots.setdefault(index, dot)",
        "covered_length:\n                        dots[index] = dot",
    ),
    _mutant(
        "checker_counts_events_that_were_not_recovered",
        "a lost commit counts only if a recovered checkpoint covers it",
        RUN_INDEX,
        "if index < covered_length:",
        "if covered_length >= 0:",
    ),
    _mutant(
        "checker_merges_adjacent_ranges_wrongly",
        "a set of identifiers contains exactly those that were added",
        RUN_INDEX,
        "first, last = bisect_left(flat, start), bisect_right(flat, end)",
        "first, last = bisect_right(flat, start), bisect_right(flat, end)",
    ),
    _mutant(
        "checker_confuses_incarnations",
        "an operation is committed only if its own incarnation cast the request last",
        RUN_INDEX,
        "return casts is not None and casts[-1].log.incarnation != record.incarnation",
        "return casts is None",
        "convergence",
    ),
    _mutant(
        "registry_omits_real_time",
        "all checkers judge a run",
        "registry",
        "        real_time,\n        session_order,\n        responses,",
        "        session_order,\n        responses,",
        ALL,
    ),
)
