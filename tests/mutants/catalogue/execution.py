"""Mutants of transactions and values. Replicas that all break such a rule agree with each other, so
the fuzzer detects few of them."""

from tests.mutants.catalogue import MutantWithTests, tested

TRANSACTION = "execution/transaction.py"
TRANSACTION_TESTS = "tests/unit/execution/test_transaction.py"
RANDOM = "execution/random.py"
RANDOM_TESTS = "tests/unit/execution/test_random.py"
SERIALIZABLE = "execution/serializable.py"
SERIALIZABLE_TESTS = "tests/unit/execution/test_serializable.py"
STEP_LIMIT = "execution/step_limit.py"
STEP_LIMIT_TESTS = "tests/unit/execution/test_step_limit.py"
OPERATION_ERRORS = "execution/operation_errors.py"
OPERATION_ERRORS_TESTS = "tests/unit/execution/test_operation_errors.py"
DATATYPE = "execution/datatype.py"
DATATYPE_TESTS = "tests/unit/execution/test_datatype.py"
CHAIN = "execution/mvcc/version_chain.py"
CHAIN_TESTS = "tests/unit/execution/mvcc/test_version_chain.py"
ADDITIONS_TESTS = "tests/unit/execution/mvcc/test_version_store_additions.py"

ESTIMATES = "execution/mvcc/estimates.py"
ESTIMATE_TESTS = "tests/unit/execution/mvcc/test_estimates.py"

MUTANTS: tuple[MutantWithTests, ...] = (
    tested(
        "transaction_keeps_writes_of_failed_operations",
        "an operation that raises has no effect",
        TRANSACTION_TESTS,
        TRANSACTION,
        "return ExecutionResult(outcome, {}, self._read_count, self._scan_count)",
        "return ExecutionResult(outcome, self._writes, self._read_count, self._scan_count)",
    ),
    tested(
        "transaction_scans_deleted_registers",
        "a scan omits registers that the operation deleted",
        TRANSACTION_TESTS,
        TRANSACTION,
        "            if value is ABSENT:\n                continue\n",
        "",
    ),
    tested(
        "transaction_scan_returns_one_too_many",
        "`limit` bounds the results of a scan",
        TRANSACTION_TESTS,
        TRANSACTION,
        "        remaining = -1 if limit is None else limit\n",
        "        remaining = -1 if limit is None else limit + 1\n",
    ),
    tested(
        "transaction_scan_omits_deferred_additions",
        "a scan includes the additions of its operation",
        TRANSACTION_TESTS,
        TRANSACTION,
        "            self._materialise_add(key)\n        if type(prefix) is tuple",
        "            pass\n        if type(prefix) is tuple",
    ),
    tested(
        "transaction_put_keeps_an_earlier_addition",
        "a write replaces an earlier addition",
        TRANSACTION_TESTS,
        TRANSACTION,
        "        if self._blind_adds:\n            self._blind_adds.pop(key, None)\n",
        "",
    ),
    tested(
        "transaction_adds_to_booleans",
        "only integers can be added",
        TRANSACTION_TESTS,
        TRANSACTION,
        "        if type(amount) is not int:",
        "        if not isinstance(amount, int):",
    ),
    tested(
        "transaction_picks_negative_items",
        "an item with a negative index does not exist",
        TRANSACTION_TESTS,
        TRANSACTION,
        "if type(item) is int and 0 <= item < len(values) else None",
        "if type(item) is int and item < len(values) else None",
    ),
    tested(
        "transaction_deletes_in_read_only_operations",
        "a read-only operation must not write",
        TRANSACTION_TESTS,
        TRANSACTION,
        "            self._reject_write()\n"
        "        if self._footprint is not None and not self._footprint.can_write(key):\n"
        '            self._leave_footprint("wrote", repr(key))\n'
        "        self._blind",
        "            pass\n        self._blind",
    ),
    tested(
        "transaction_continues_after_the_step_limit",
        "an operation that catches the stop still fails",
        STEP_LIMIT_TESTS,
        TRANSACTION,
        "        elif self._read_count > self._read_count_max:\n            outcome =",
        "        elif self._read_count > self._steps:\n            outcome =",
    ),
    tested(
        "step_limit_ignores_loops",
        "lines of functions with loops are steps",
        STEP_LIMIT_TESTS,
        STEP_LIMIT,
        "return trace_line if _has_loops(frame.f_code) else None",
        "return None",
    ),
    tested(
        "random_numbers_ignore_the_event",
        "two requests of a replica draw different numbers",
        RANDOM_TESTS,
        RANDOM,
        "for part in (request.timestamp, request.id.replica, request.id.event):",
        "for part in (request.timestamp, request.id.replica):",
    ),
    tested(
        "random_range_includes_its_end",
        "a random range excludes its upper bound",
        RANDOM_TESTS,
        RANDOM,
        "        width = high - low\n",
        "        width = high - low + 1\n",
    ),
    tested(
        "values_may_be_infinite",
        "a float is finite",
        SERIALIZABLE_TESTS,
        SERIALIZABLE,
        "            if math.isfinite(each):",
        "            if not math.isnan(each):",
    ),
    tested(
        "values_may_exceed_64_bits",
        "an integer fits 64 bits",
        SERIALIZABLE_TESTS,
        SERIALIZABLE,
        "INT_MAX: Final = 2**63 - 1",
        "INT_MAX: Final = 2**63",
    ),
    tested(
        "values_may_nest_one_level_deeper",
        "values nest at most 64 levels",
        SERIALIZABLE_TESTS,
        SERIALIZABLE,
        "    if depth == DEPTH_MAX:",
        "    if depth > DEPTH_MAX:",
    ),
    tested(
        "values_of_the_store_are_shared",
        "an operation cannot modify a stored dict",
        SERIALIZABLE_TESTS,
        SERIALIZABLE,
        "        return value.copy()\n    return value",
        "        return value\n    return value",
    ),
    tested(
        "errors_contain_memory_addresses",
        "the text of an error is equal in every process",
        OPERATION_ERRORS_TESTS,
        OPERATION_ERRORS,
        '_MEMORY_ADDRESS.sub("", message))',
        "message)",
    ),
    tested(
        "every_error_of_an_operation_is_reported",
        "the trace of an error is reported once for each operation and line",
        OPERATION_ERRORS_TESTS,
        OPERATION_ERRORS,
        "if place not in self._reported and len(",
        "if len(",
    ),
    tested(
        "a_boolean_is_an_integer",
        "a boolean is no number",
        "tests/unit/execution/test_argument_types.py",
        "execution/argument_types.py",
        "    Kind.INTEGER: frozenset((int,)),",
        "    Kind.INTEGER: frozenset((int, bool)),",
    ),
    tested(
        "unions_convert_before_they_accept",
        "a union accepts a value unchanged if an alternative does",
        "tests/unit/execution/test_argument_types.py",
        "execution/argument_types.py",
        "        if type(converted[-1]) is type(value):\n",
        "        if converted:\n",
    ),
    tested(
        "replica_admits_any_types",
        "a replica checks the annotated types of a call",
        "tests/cluster/test_client_calls.py::test_python_the_command_and_http_accept_the_same_arguments",
        "server/calls/admission_control.py",
        "self.datatype.checked_arguments(name, request.arguments)",
        "self.datatype.call(name, *request.arguments).arguments",
    ),
    tested(
        "replica_admits_any_types_in_a_batch",
        "a replica checks the annotated types of a call in a batch",
        "tests/cluster/test_client_calls.py::test_python_the_command_and_http_accept_the_same_arguments",
        "server/calls/admission_control.py",
        "return self.datatype.checked_arguments(name, arguments)",
        "return self.datatype.call(name, *arguments).arguments",
    ),
    tested(
        "load_drops_tracebacks",
        "an exception in a load keeps its traceback",
        "tests/unit/execution/test_operation_errors.py",
        "execution/datatype.py",
        "transaction, leading, rows, self.count_lines, self.error_observer",
        "transaction, leading, rows, self.count_lines, None",
    ),
    tested(
        "sequential_drops_the_cause_of_an_error",
        "an exception in an operation keeps its traceback",
        "tests/unit/execution/test_sequential.py",
        "execution/sequential.py",
        "from (raised[0] if raised else None)",
        "from None",
    ),
    tested(
        "chain_reads_the_own_position",
        "a request reads only versions before its position",
        CHAIN_TESTS,
        CHAIN,
        "_position_of_version(versions[index]) >= position:",
        "_position_of_version(versions[index]) > position:",
    ),
    tested(
        "chain_forgets_readers_of_sums",
        "readers of a sum are suspect after an earlier addition",
        CHAIN_TESTS,
        CHAIN,
        "        self._suspect_deltas(index + 1, suspects)\n        return index == self.spare",
        "        return index == self.spare",
    ),
    tested(
        "chain_forgets_sums_of_moved_additions",
        "an addition that moves past no other version keeps the sum that leads to its readers",
        ADDITIONS_TESTS,
        CHAIN,
        "            self._suspect_readers(versions[new_index - 1], position, suspects)\n",
        (
            "            self._suspect_readers(versions[new_index - 1], position, suspects)\n"
            "        version.running_total = None\n"
        ),
    ),
    tested(
        "request_awaits_later_requests",
        "a request waits only for requests at earlier positions",
        ESTIMATE_TESTS,
        ESTIMATES,
        "if writer.position < position and (",
        "if writer.position != position and (",
    ),
    tested(
        "estimates_are_not_bounded",
        "the keys of all estimates are bounded",
        ESTIMATE_TESTS,
        ESTIMATES,
        "        while self._key_count > self._keys_max:",
        "        while self._key_count < 0:",
    ),
    tested(
        "estimate_of_a_request_is_that_of_its_pattern",
        "the estimate of a request is its own last execution",
        ESTIMATE_TESTS,
        ESTIMATES,
        "        entry.estimate = estimate\n        pattern",
        "        pattern",
    ),
)
