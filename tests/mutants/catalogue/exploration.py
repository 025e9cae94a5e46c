"""Mutants of the exploration: states that it merges, steps and violations that it misses."""

from tests.mutants.catalogue import MutantWithTests, tested

CANONICAL = "exploration/canonical.py"
CANONICAL_TESTS = "tests/unit/exploration/test_canonical.py"
SEARCH = "exploration/search.py"
SEARCH_TESTS = "tests/unit/exploration/test_search.py"
PROPERTIES = "exploration/properties.py"
QUORUMS = "checkers/quorums.py"
PROPERTIES_TESTS = "tests/unit/exploration/test_properties.py"
CONVERGENCE = "exploration/convergence.py"
CONVERGENCE_TESTS = "tests/unit/exploration/test_convergence.py"
EXPLORATION_TESTS = "tests/simulation/test_exploration.py"

MUTANTS: tuple[MutantWithTests, ...] = (
    # --- states -----------------------------------------------------------------------------------
    tested(
        "states_ignore_shared_references",
        "the encoding covers which references are shared",
        CANONICAL_TESTS,
        CANONICAL,
        "    if id(item) in numbers:\n"
        '        parts.append(f"#{numbers[id(item)]} ")\n'
        "        return\n",
        "",
    ),
    tested(
        "states_forget_the_order_of_dictionaries",
        "the encoding keeps the order of dictionaries",
        CANONICAL_TESTS,
        CANONICAL,
        "for key, value in item.items():",
        "for key, value in sorted(item.items(), key=repr):",
    ),
    tested(
        "states_differ_by_the_order_of_sets",
        "the encoding does not depend on the order of a set",
        CANONICAL_TESTS,
        CANONICAL,
        "parts.extend(sorted(_encode_alone(each, numbers) for each in item))",
        "parts.extend([_encode_alone(each, numbers) for each in item])",
    ),
    tested(
        "states_ignore_slots",
        "the encoding covers slots",
        CANONICAL_TESTS,
        CANONICAL,
        "            names.update((slots,) if isinstance(slots, str) else slots)\n",
        "",
    ),
    tested(
        "states_ignore_fields_of_messages",
        "the encoding covers the fields of structs",
        CANONICAL_TESTS,
        CANONICAL,
        "        for name in item.__struct_fields__:\n",
        "        for name in item.__struct_fields__[:1]:\n",
    ),
    tested(
        "states_count_statistics",
        "statistics do not distinguish states",
        CANONICAL_TESTS,
        CANONICAL,
        'frozenset({"rejected", "drift_us", "base", "_base", "_task_number"})',
        'frozenset({"drift_us", "base", "_base", "_task_number"})',
    ),
    tested(
        "states_join_adjacent_values",
        "adjacent values are separated in the encoding",
        CANONICAL_TESTS,
        CANONICAL,
        '        parts.append(f"{item!r} ")',
        "        parts.append(repr(item))",
    ),
    # --- search -----------------------------------------------------------------------------------
    tested(
        "search_ignores_messages_in_flight",
        "a state includes the messages in flight",
        SEARCH_TESTS,
        SEARCH,
        'array("I", (*self[0], *self[1:-1], *self[-1]))',
        'array("I", (*self[0], *self[1:-1]))',
    ),
    tested(
        "search_never_loses_messages",
        "a message may be lost",
        SEARCH_TESTS,
        SEARCH,
        "            if state.losses:\n                yield",
        "            if False:\n                yield",
    ),
    tested(
        "search_never_copies_messages",
        "a message may arrive twice",
        SEARCH_TESTS,
        SEARCH,
        "            if state.duplicates:\n                yield",
        "            if False:\n                yield",
    ),
    tested(
        "search_crashes_lose_nothing",
        "a crash may lose every record that is not durable",
        SEARCH_TESTS,
        SEARCH,
        "                for kept in range(volatile + 1):",
        "                for kept in range(volatile, volatile + 1):",
    ),
    tested(
        "search_never_crashes",
        "a replica may crash",
        SEARCH_TESTS,
        SEARCH,
        "if state.crashes and replica in scope.crashing:\n                for",
        "if False:\n                for",
    ),
    tested(
        "search_never_suspects_the_leader",
        "a replica may suspect the leader",
        SEARCH_TESTS,
        SEARCH,
        "if state.leader_changes and replica in scope.suspecting and replica != state.isolated:",
        "if False:",
    ),
    tested(
        "search_ignores_the_order_of_links",
        "a link with an order delivers its first message",
        SEARCH_TESTS,
        SEARCH,
        '        if self._scope.links == "any":\n            return list',
        "        if True:\n            return list",
    ),
    tested(
        "search_stops_as_exhausted",
        "a limited search is not exhausted",
        SEARCH_TESTS,
        SEARCH,
        "                        if len(numbers) == states_max:\n"
        "                            return",
        "                        if len(numbers) == states_max:\n"
        "                            self._result.is_exhausted = True\n"
        "                            return",
    ),
    tested(
        "search_checks_no_state",
        "every state is checked",
        EXPLORATION_TESTS,
        SEARCH,
        "        if key in self._checked:\n            return\n        self._checked.add(key)\n",
        "        return\n",
    ),
    tested(
        "search_checks_no_terminal_state",
        "every terminal state is checked",
        EXPLORATION_TESTS,
        SEARCH,
        "        if key in self._converging:\n            return\n",
        "        return\n",
    ),
    tested(
        "search_forgets_violations_of_steps",
        "a violation within a step is reported",
        EXPLORATION_TESTS,
        SEARCH,
        "        if step is not None and step.violation is not None:\n"
        "            raise _StepViolated(step.violation, act)\n",
        "",
    ),
    tested(
        "search_reports_a_path_without_its_last_step",
        "a path leads to its violation",
        EXPLORATION_TESTS,
        SEARCH,
        "                    path = [*error.acts]\n",
        "                    path = []\n",
    ),
    tested(
        "search_removes_all_copies",
        "a delivery removes one copy of a message",
        SEARCH_TESTS,
        SEARCH,
        "    return in_flight[:index] + in_flight[index + 1 :]",
        "    return tuple(each for each in in_flight if each != envelope)",
    ),
    tested(
        "search_expects_no_stable_responses",
        "without faults, strong calls have stable responses",
        SEARCH_TESTS,
        SEARCH,
        "            self._check_without_faults(state)\n",
        "            pass\n",
    ),
    tested(
        "search_ignores_sessions",
        "a session makes its calls in order",
        SEARCH_TESTS,
        SEARCH,
        "state.calls_made >> earlier & 1 or call.session != session",
        "True",
    ),
    tested(
        "partition_keeps_messages",
        "a partition loses the messages of the isolated replica",
        SEARCH_TESTS,
        SEARCH,
        "return tuple(each for each in envelopes if state.isolated not in self._link(each))",
        "return envelopes",
    ),
    tested(
        "walks_ignore_their_seed",
        "a walk depends on its seed",
        SEARCH_TESTS,
        SEARCH,
        "random = Random(seed)",
        "random = Random(0)",
    ),
    # --- properties -------------------------------------------------------------------------------
    tested(
        "properties_accept_two_chosen_batches",
        "an instance has one chosen batch",
        PROPERTIES_TESTS,
        PROPERTIES,
        "if is_decided and chosen.setdefault(instance, batch) != batch:",
        "if is_decided and chosen.setdefault(instance, batch) == ():",
    ),
    tested(
        "properties_count_half_as_a_majority",
        "a majority chooses a batch",
        PROPERTIES_TESTS,
        QUORUMS,
        "if len(second_votes & set(electorate)) > len(electorate) // 2:",
        "if len(second_votes & set(electorate)) >= len(electorate) // 2:",
    ),
    tested(
        "properties_accept_different_decisions",
        "replicas decide the chosen batch",
        PROPERTIES_TESTS,
        PROPERTIES,
        "if chosen.setdefault(instance, batch) != batch:\n"
        "                    raise PropertyViolated(\n"
        '                        f"instance {instance} is decided',
        "if False:\n"
        "                    raise PropertyViolated(\n"
        '                        f"instance {instance} is decided',
    ),
    tested(
        "properties_accept_different_orders",
        "the committed orders agree",
        PROPERTIES_TESTS,
        PROPERTIES,
        "if expected.setdefault(position, id) != id:",
        "if False:",
    ),
    tested(
        "properties_accept_requests_twice",
        "a request is committed once",
        PROPERTIES_TESTS,
        PROPERTIES,
        "if len(set(each.committed)) < len(each.committed):",
        "if False:",
    ),
    tested(
        "properties_accept_early_stable_responses",
        "a stable response has a decided position",
        PROPERTIES_TESTS,
        PROPERTIES,
        "                    if id not in positions:\n                        raise",
        "                    if id not in positions:\n"
        "                        continue\n"
        "                        raise",
    ),
    tested(
        "properties_accept_wrong_stable_responses",
        "a stable response is that of a sequential execution",
        PROPERTIES_TESTS,
        PROPERTIES,
        "if not equal_outcomes(response.outcome, expected):",
        "if False:",
    ),
    tested(
        "properties_accept_wrong_changed_marks",
        "a final response is marked as changed exactly if it differs",
        PROPERTIES_TESTS,
        PROPERTIES,
        "if response.kind is ResponseKind.FINAL and response.changed == equal_outcomes(",
        "if response.kind is ResponseKind.FINAL and response.changed > equal_outcomes(",
    ),
    tested(
        "properties_accept_orders_against_real_time",
        "a strong call precedes those made after its stable response",
        PROPERTIES_TESTS,
        PROPERTIES,
        "if position is None or position > positions[issued[later]]:",
        "if False:",
    ),
    tested(
        "properties_accept_equal_identifiers",
        "an identifier names one request",
        PROPERTIES_TESTS,
        PROPERTIES,
        "if requests.setdefault(id, request) != request:",
        "if False:",
    ),
    tested(
        "properties_accept_late_contexts",
        "a request follows its causal context",
        PROPERTIES_TESTS,
        PROPERTIES,
        "                if each.strong:\n                    raise",
        "                if False:\n                    raise",
    ),
    tested(
        "properties_ignore_the_order_of_replicas",
        "a weak request precedes later ones of its replica",
        PROPERTIES_TESTS,
        PROPERTIES,
        "if is_earlier and not other.strong and id not in preceding:",
        "if False:",
    ),
    tested(
        "convergence_forgives_lost_requests",
        "a request with a response is committed",
        CONVERGENCE_TESTS,
        CONVERGENCE,
        "and id.event > 0 and id not in committed:",
        "and id.event < 0 and id not in committed:",
    ),
    tested(
        "convergence_forgives_missing_stable_responses",
        "every strong call gets a stable response",
        CONVERGENCE_TESTS,
        CONVERGENCE,
        "if is_strong and call in node.live_calls and not node.witness.has_stable(call):",
        "if False:",
    ),
    tested(
        "convergence_ignores_states",
        "all replicas end with the state of a sequential execution",
        CONVERGENCE_TESTS,
        CONVERGENCE,
        "if not equal_exactly(dict(view.state()), machine.changes()):",
        "if False:",
    ),
)
