"""Mutants of footprints and of estimates: accesses, overlaps, and stable responses by them.

The fuzzer never leaves a footprint, since the built-in data types declare theirs correctly. Unit
tests cover the enforcement.
"""

from tests.mutants.catalogue import AnyMutant, Edit, Mutant, tested

TRANSACTION = "execution/transaction.py"
TRANSACTION_TESTS = "tests/unit/execution/test_transaction_footprint.py"
DECLARATION = "execution/declaration.py"
DATATYPE = "execution/datatype.py"
DATATYPE_TESTS = "tests/unit/execution/test_datatype_footprint.py"
SCHEDULER = "execution/mvcc/scheduler.py"
FOOTPRINT = "execution/footprint.py"
FOOTPRINT_TESTS = "tests/unit/execution/test_footprint.py"
INDEX = "execution/mvcc/footprint_index.py"
INDEX_TESTS = "tests/unit/execution/mvcc/test_footprint_index.py"
ESTIMATES = "execution/mvcc/estimates.py"
ESTIMATE_TESTS = "tests/unit/execution/mvcc/test_estimates.py"
FINALITY = "schemes/core/finality.py"
FINALITY_TESTS = "tests/unit/schemes/core/test_finality.py"
VERSIONED = "schemes/core/versioned.py"
DEDUPLICATION = "wire/deduplication.py"
DEDUPLICATION_TESTS = "tests/unit/wire/test_deduplication.py"
TPCC_FOOTPRINTS = "tpcc/footprints.py"
TPCC_TESTS = "tests/unit/tpcc/test_footprints.py"

MUTANTS: tuple[AnyMutant, ...] = (
    # --- enforcement ------------------------------------------------------------------------------
    tested(
        "footprint_is_not_enforced_on_reads",
        "an operation reads only registers of its footprint",
        TRANSACTION_TESTS,
        TRANSACTION,
        '            self._leave_footprint("read", repr(key))\n'
        "        if self._blind_adds and key in self._blind_adds:\n"
        "            self._materialise_add(key)\n"
        "        writes = self._writes\n"
        "        value = writes[key] if writes and",
        "            pass\n"
        "        if self._blind_adds and key in self._blind_adds:\n"
        "            self._materialise_add(key)\n"
        "        writes = self._writes\n"
        "        value = writes[key] if writes and",
    ),
    tested(
        "footprint_is_not_enforced_on_rows",
        "a load of rows stays inside the footprint of each row",
        DATATYPE_TESTS,
        DECLARATION,
        "type(prefixes) is list and row[0] in prefixes",
        "type(prefixes) is list",
    ),
    tested(
        "footprint_has_no_step_limit_in_an_execution",
        "the lines of a footprint are steps of its operation",
        DATATYPE_TESTS,
        DECLARATION,
        "        sys.settrace(self._line_counter(transaction.step))\n"
        "        try:\n"
        "            if self.touches is not None:\n"
        "                transaction.restrict(self.footprint(arguments))\n",
        "        if self.touches is not None:\n"
        "            transaction.restrict(self.footprint(arguments))\n"
        "        sys.settrace(self._line_counter(transaction.step))\n"
        "        try:\n",
    ),
    tested(
        "footprint_has_no_step_limit_before_its_execution",
        "a replica computes footprints within the step limit",
        DATATYPE_TESTS,
        DATATYPE,
        "            if self.count_lines:\n                return declaration.footprint_within",
        "            if False:\n                return declaration.footprint_within",
    ),
    tested(
        "footprint_is_not_enforced_on_writes",
        "an operation writes only registers of its footprint",
        TRANSACTION_TESTS,
        TRANSACTION,
        '            self._leave_footprint("wrote", repr(key))\n        if not is_row(value):',
        "            pass\n        if not is_row(value):",
    ),
    tested(
        "footprint_is_not_enforced_on_additions",
        "an operation adds only to registers of its footprint",
        TRANSACTION_TESTS,
        TRANSACTION,
        '            self._leave_footprint("wrote", repr(key))\n        if key in self._writes:',
        "            pass\n        if key in self._writes:",
    ),
    tested(
        "footprint_is_not_enforced_on_scans",
        "an operation scans only ranges of its footprint",
        TRANSACTION_TESTS,
        TRANSACTION,
        '            self._leave_footprint("scanned", _range_text(prefix, start, stop))\n',
        "            pass\n",
    ),
    tested(
        "operation_continues_outside_its_footprint",
        "an operation that catches the error of its footprint fails all the same",
        TRANSACTION_TESTS,
        TRANSACTION,
        "        if self._violation is not None:\n            outcome = ",
        "        if False:\n            outcome = ",
    ),
    tested(
        "registers_to_read_can_be_written",
        "`reads` declares registers that the operation does not write",
        FOOTPRINT_TESTS,
        FOOTPRINT,
        "            self._writable = PrefixSet(self.touches)",
        "            self._writable = PrefixSet((*self.touches, *self.reads))",
    ),
    tested(
        "tuple_is_accepted_as_a_list_of_prefixes",
        "a footprint is a list, so that a single prefix is not mistaken for one",
        FOOTPRINT_TESTS,
        FOOTPRINT,
        "    if type(prefixes) is not list:",
        "    if type(prefixes) is not list and type(prefixes) is not tuple:",
    ),
    tested(
        "empty_prefix_covers_reserved_registers",
        "a prefix covers the keys that its scan covers",
        FOOTPRINT_TESTS,
        FOOTPRINT,
        " and (length or not is_reserved(components))",
        "",
    ),
    # --- overlaps ---------------------------------------------------------------------------------
    tested(
        "longer_prefixes_do_not_overlap",
        "a footprint overlaps with prefixes that extend one of its own",
        INDEX_TESTS,
        INDEX,
        "        yield from self._prefixes.irange_key(start, stop, (False, False))\n",
        "",
    ),
    tested(
        "reads_do_not_overlap",
        "a request depends on requests that may write what it reads",
        (INDEX_TESTS, TPCC_TESTS),
        INDEX,
        "        for prefixes in (footprint.touches, footprint.reads):\n",
        "        for prefixes in (footprint.touches,):\n",
    ),
    tested(
        "unlimited_requests_do_not_overlap",
        "a request without a footprint may write everything",
        (INDEX_TESTS, FINALITY_TESTS),
        INDEX,
        "            _insert(self._unlimited, entry)\n",
        "            pass\n",
    ),
    tested(
        "deduplicated_call_omits_its_register",
        "the register of a call is a part of its footprint",
        DEDUPLICATION_TESTS,
        DEDUPLICATION,
        "footprint.with_register(_register(*arguments[:2]))",
        "footprint",
    ),
    tested(
        "new_order_omits_remote_suppliers",
        "a New-Order takes from the stock of every supplying warehouse",
        TPCC_TESTS,
        TPCC_FOOTPRINTS,
        "        for supplier in {supplier: None for _, supplier, _ in lines}:\n",
        "        for supplier in (w,):\n",
    ),
    # --- stable responses -------------------------------------------------------------------------
    Mutant(
        "stable_response_ignores_overlaps",
        "a stable response waits for requests that may write what it touches",
        100,
        (
            Edit(
                FINALITY,
                "        blocker = self._writers.find_overlap(entry)\n",
                "        blocker = None\n",
            ),
        ),
        "differential",
    ),
    Mutant(
        "overlaps_are_not_transitive",
        "a request depends on what the requests that it depends on depend on",
        60,
        (
            Edit(
                FINALITY,
                "        blocker = self._writers.find_overlap(entry)\n",
                "        blocker = self._writers.find_overlap(entry)\n"
                "        if blocker is not None and blocker.is_executed:\n"
                "            blocker = None\n",
            ),
        ),
        "differential",
    ),
    tested(
        "readers_of_a_split_run_are_final_early",
        "a reader of a split run is validated after the run's last member",
        FINALITY_TESTS,
        FINALITY,
        "            blocker = self._store.pending_rollbacks.find_pending_writer("
        "entry.effective_reads)\n",
        "            pass\n",
    ),
    tested(
        "members_of_a_split_run_stay_final",
        "a request that is executed again is open until it is final again",
        FINALITY_TESTS,
        VERSIONED,
        "            self._finality.reopen(entry)\n",
        "            pass\n",
    ),
    tested(
        "requests_wait_for_reads",
        "no request waits for one that cannot write",
        FINALITY_TESTS,
        FINALITY,
        "        if may_write:\n            self._writers.add(entry)\n",
        "        self._writers.add(entry)\n",
    ),
    # --- estimates --------------------------------------------------------------------------------
    Mutant(
        "stale_estimates_delay_for_ever",
        "a request waits only for requests that are not executed",
        60,
        (Edit(ESTIMATES, "        if self._indexed:\n            self._remove(entry)\n", ""),),
        "creek",
    ),
    tested(
        "delayed_requests_count_as_idle",
        "a replica with delayed requests has executions to do",
        ESTIMATE_TESTS,
        SCHEDULER,
        "not self._waiting and not self._delayed and",
        "not self._waiting and",
    ),
    tested(
        "estimates_include_the_register_of_a_call",
        "the register of one call says nothing about another call",
        ESTIMATE_TESTS,
        ESTIMATES,
        "        if called is not operation:\n",
        "        if False:\n",
    ),
)
