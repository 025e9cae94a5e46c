"""Mutants of the interfaces for people: HTTP and commands."""

from tests.mutants.catalogue import MutantWithTests, tested

SCHEMA = "http/schema.py"
SCHEMA_TESTS = "tests/unit/http/test_schema.py"
OPERATIONS = "http/operations.py"
OPERATION_TESTS = "tests/unit/http/test_operations.py"
CONNECTIONS = "http/connections.py"
HTTP_CONNECTION_TESTS = "tests/http/test_connections.py"
TIMELINE = "cli/views/timeline.py"
TIMELINE_TESTS = "tests/unit/cli/views/test_timeline.py"
OPTIONS = "cli/options.py"
OPTION_TESTS = "tests/unit/cli/test_options.py"
DIRECTORY_TESTS = "tests/unit/cli/test_output_directories.py"

MUTANTS: tuple[MutantWithTests, ...] = (
    tested(
        "search_ignores_sessions",
        "a session keeps its order in every explored order",
        "tests/unit/testing/test_order_search.py",
        "testing/order_search.py",
        "for each in (session if isinstance(session, list) else [session])",
        "for each in (reversed(session) if isinstance(session, list) else [session])",
    ),
    tested(
        "simulated_call_hides_the_apology",
        "a success that becomes a failure is `changed`, also in a simulation",
        "tests/unit/testing/test_simulated_cluster.py",
        "testing/simulated_cluster.py",
        "changed=response is not first and first.outcome.error is None",
        "changed=False",
    ),
    tested(
        "http_accepts_fractions_as_integers",
        "an integer argument has no fraction",
        SCHEMA_TESTS,
        SCHEMA,
        'if kind == "integer" and type(value) is float and value.is_integer():',
        'if kind == "integer" and type(value) is float:',
    ),
    tested(
        "http_accepts_integers_beyond_64_bits",
        "an integer argument fits 64 bits",
        SCHEMA_TESTS,
        SCHEMA,
        'if kind == "integer" and not schema["minimum"] <= value <= schema["maximum"]:',
        'if kind == "integer" and not schema["minimum"] <= value:',
    ),
    tested(
        "http_accepts_arrays_of_another_length",
        "a tuple argument has its declared length",
        SCHEMA_TESTS,
        SCHEMA,
        "    if len(value) != length:",
        "    if len(value) < length:",
    ),
    tested(
        "http_accepts_true_as_one",
        "true is not the number 1 of an enumeration",
        SCHEMA_TESTS,
        SCHEMA,
        "if value == each and isinstance(value, bool) is isinstance(each, bool):",
        "if value == each:",
    ),
    tested(
        "http_ignores_unknown_arguments",
        "an unknown argument is an error",
        OPERATION_TESTS,
        OPERATIONS,
        "        if unknown:\n",
        "        if unknown[1:]:\n",
    ),
    tested(
        "http_ignores_missing_arguments",
        "a missing argument is an error that names it",
        OPERATION_TESTS,
        OPERATIONS,
        "        if missing:\n",
        "        if missing[1:]:\n",
    ),
    tested(
        "http_lists_internal_operations",
        "operations of Creek are not in the catalogue",
        OPERATION_TESTS,
        OPERATIONS,
        "            if not name.startswith(INTERNAL_PREFIX)\n",
        "",
    ),
    tested(
        "http_header_may_take_forever",
        "a request header arrives within its timeout",
        HTTP_CONNECTION_TESTS,
        CONNECTIONS,
        "keepalive_timeout=limits.idle_timeout_s,",
        "keepalive_timeout=3600,",
    ),
    tested(
        "http_client_may_never_read",
        "a client reads each response within its timeout",
        HTTP_CONNECTION_TESTS,
        CONNECTIONS,
        "call_later(timeout_s, self.abort)",
        "call_later(3600 + timeout_s, self.abort)",
    ),
    tested(
        "http_silent_clients_exclude_others",
        "a new connection replaces the one that has waited longest",
        HTTP_CONNECTION_TESTS,
        CONNECTIONS,
        "            if not self._waiting:\n                return False",
        "            if True:\n                return False",
    ),
    tested(
        "http_replaces_requests_in_progress",
        "a request in progress keeps its connection",
        HTTP_CONNECTION_TESTS,
        CONNECTIONS,
        "        self.mark_serving(request.protocol)\n",
        "",
    ),
    tested(
        "http_unread_responses_exclude_others",
        "a client that does not read waits",
        HTTP_CONNECTION_TESTS,
        CONNECTIONS,
        "        super().pause_writing()\n        self._connections.mark_waiting(self)\n",
        "        super().pause_writing()\n",
    ),
    tested(
        "http_expands_bodies",
        "a compressed body is not expanded",
        HTTP_CONNECTION_TESTS,
        CONNECTIONS,
        "auto_decompress=False,",
        "auto_decompress=True,",
    ),
    tested(
        "http_rejected_connections_stay_open",
        "a connection above the limit is closed",
        HTTP_CONNECTION_TESTS,
        CONNECTIONS,
        "            self._transport.close()\n            return\n",
        "            return\n",
    ),
    tested(
        "http_long_header_is_malformed",
        "a header that is too long has its own problem",
        HTTP_CONNECTION_TESTS,
        CONNECTIONS,
        'if isinstance(error, LineTooLong) or error.message == "Too many headers received":',
        "if False:",
    ),
    tested(
        "http_hides_internal_errors",
        "an internal error is logged",
        HTTP_CONNECTION_TESTS,
        CONNECTIONS,
        '            _log.error("%s %s failed", request.method, request.path, exc_info=exc)\n',
        "",
    ),
    tested(
        "http_does_not_count_connections",
        "rejected connections are counted",
        HTTP_CONNECTION_TESTS,
        CONNECTIONS,
        '            self.count(HttpProblem(RejectReason.BUSY, "too many connections"))\n',
        "",
    ),
    tested(
        "timeline_hides_changed_responses",
        "a changed final response is shown",
        TIMELINE_TESTS,
        TIMELINE,
        "if kind is ResponseKind.FINAL and not response.changed:",
        "if kind is ResponseKind.FINAL:",
    ),
    tested(
        "timeline_shows_the_error_as_a_value",
        "an error is shown with a cross and its message",
        TIMELINE_TESTS,
        TIMELINE,
        "    if outcome.error is None:\n        return _value_text(outcome.value)\n",
        "    return _value_text(outcome.value)\n",
    ),
    tested(
        "command_replaces_the_working_directory",
        "a new directory must not contain the working directory",
        (DIRECTORY_TESTS, OPTION_TESTS),
        OPTIONS,
        "if path.resolve() in (working_directory, *working_directory.parents):",
        "if path.resolve() == working_directory:",
    ),
    tested(
        "command_accepts_infinite_rates",
        "a rate is finite",
        OPTION_TESTS,
        OPTIONS,
        "        if not math.isfinite(rate):",
        "        if math.isnan(rate):",
    ),
    tested(
        "command_rejects_texts_as_arguments",
        "an argument that is not JSON is a text",
        OPTION_TESTS,
        OPTIONS,
        "        return text\n",
        "        return None\n",
    ),
)
