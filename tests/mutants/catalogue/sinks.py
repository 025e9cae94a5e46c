"""Mutants of staged rows, the ledgers of sinks, and the writers that use them."""

from tests.mutants.catalogue import MutantWithTests, tested

LEDGERS = "wire/sink_ledgers.py"
STAGING = "wire/staging.py"
STAGING_TESTS = "tests/unit/wire/test_staging.py"
STAGED_ROWS = "server/calls/staged_rows.py"
STAGED_ROWS_TESTS = "tests/unit/server/calls/test_staged_rows.py"
SINKS = "client/sinks.py"
WRITER = "pipeline/source/writer.py"
WRITER_TESTS = "tests/unit/pipeline/source/test_writer.py"
WRITE_OPTIONS = "pipeline/source/write_options.py"
ROW_PLAN = "pipeline/source/row_plan.py"
ROW_PLAN_TESTS = "tests/unit/pipeline/source/test_row_plan.py"

MUTANTS: tuple[MutantWithTests, ...] = (
    tested(
        "ledger_applies_a_batch_again",
        "a batch that the ledger has is ignored",
        f"{STAGING_TESTS}::test_a_repeated_batch_is_applied_once",
        LEDGERS,
        "application.batch <= ledger.batch:",
        "application.batch < ledger.batch:",
    ),
    tested(
        "ledger_forgets_its_plan",
        "a batch that is applied in part is continued with its first plan",
        f"{STAGING_TESTS}::test_a_started_batch_is_completed_with_its_first_plan",
        LEDGERS,
        "progress = ledger.progress or Progress(",
        "progress = Progress(",
    ),
    tested(
        "ledger_skips_a_started_batch",
        "no other batch is applied before a started one is complete",
        f"{STAGING_TESTS}::test_no_other_batch_is_applied_before_a_started_one_is_complete",
        LEDGERS,
        "if progress.batch != application.batch:",
        "if progress.batch > application.batch:",
    ),
    tested(
        "ledger_accepts_another_query",
        "a ledger counts the batches of one query",
        f"{STAGING_TESTS}::test_batches_of_another_query_are_rejected",
        LEDGERS,
        "if application.query and ledger.query and application.query != ledger.query:",
        "if False:",
    ),
    tested(
        "application_ignores_the_step_limit",
        "an application executes no more steps than one operation may",
        f"{STAGING_TESTS}::test_an_application_executes_no_more_steps_than_one_operation_may",
        LEDGERS,
        "            if index and self._is_full:",
        "            if False:",
    ),
    tested(
        "atomic_application_leaves_rows",
        "an atomic application takes effect as a whole or fails",
        f"{STAGING_TESTS}::test_an_atomic_batch_that_needs_several_applications_fails_without_effect",
        LEDGERS,
        "if application.is_atomic and not is_complete:",
        "if False:",
    ),
    tested(
        "rows_write_reserved_registers",
        "rows cannot write registers of Creek, such as ledgers",
        f"{STAGING_TESTS}::test_rows_cannot_write_reserved_registers",
        LEDGERS,
        "        if type(key) is tuple and key and key[0] in RESERVED_PREFIXES:",
        "        if False:",
    ),
    tested(
        "rejected_rows_are_kept_for_each_part",
        "a rejected row is kept once",
        f"{STAGING_TESTS}::test_rejected_rows_are_kept_once_if_their_chunk_is_applied_in_parts",
        LEDGERS,
        "        if progress.row == 0:",
        "        if True:",
    ),
    tested(
        "planned_rows_expire",
        "rows of a batch that is applied in part do not expire",
        f"{STAGING_TESTS}::test_old_staged_rows_expire_unless_a_batch_needs_them",
        STAGING,
        "return key[2] not in in_plans and view.read(key)[0] < before_us",
        "return view.read(key)[0] < before_us",
    ),
    tested(
        "staged_rows_are_not_checked",
        "the replica that admits a chunk checks the arguments of each row",
        STAGED_ROWS_TESTS,
        STAGED_ROWS,
        "checked.append(datatype.checked_arguments(name, leading + row)[start:])",
        "checked.append(row)",
    ),
    tested(
        "writer_ignores_the_number_of_a_batch",
        "a batch that is written again has the number that it had",
        WRITER_TESTS,
        WRITER,
        "run(self.apply(messages, sink, query, batchId))",
        "run(self.apply(messages, unnamed_sink(), query, batchId))",
    ),
    tested(
        "writer_stages_under_one_token",
        "each attempt of a task stages its rows under a token of its own",
        "tests/cluster/test_sinks.py::test_a_sink_applies_each_batch_once",
        SINKS,
        "token = uuid.uuid4().hex",
        'token = "token"',
    ),
    tested(
        "writer_accepts_a_null_key",
        "a row without a key is not written",
        ROW_PLAN_TESTS,
        ROW_PLAN,
        "if column.null_count and name in self.required:",
        "if False:",
    ),
    tested(
        "json_errors_are_stored_as_text",
        "a text that is no JSON is an error of its row",
        ROW_PLAN_TESTS,
        ROW_PLAN,
        "yield _invalid_row(values) if _Invalid in map(type, values) else row",
        "yield row",
    ),
    tested(
        "batch_write_ignores_a_missing_number",
        "a batch write with a sink has a number",
        "tests/unit/pipeline/source/test_write_options.py",
        WRITE_OPTIONS,
        "if (sink is None) is not (batch is None):",
        "if False:",
    ),
    tested(
        "source_restores_rows_of_other_tables",
        "an earlier state of a table has the rows of that table only",
        "tests/pipeline/test_source_readers.py::"
        "test_an_earlier_state_of_a_table_has_no_rows_of_others",
        "pipeline/source/images.py",
        "reader.changes(start, ticket.index + 1, ticket.prefix)",
        "reader.changes(start, ticket.index + 1, None)",
    ),
    tested(
        "writer_fails_at_a_time_beyond_python",
        "a value that Python cannot represent is an error of its row",
        ROW_PLAN_TESTS,
        ROW_PLAN,
        "except (OverflowError, ValueError):",
        "except ZeroDivisionError:",
    ),
    tested(
        "sink_fails_at_a_large_row",
        "a row that is too large is an invalid row",
        "tests/unit/client/test_sinks.py",
        SINKS,
        "    elif size <= _ROW_BYTES_MAX:",
        "    elif size:",
    ),
    tested(
        "dead_letters_of_two_sinks_share_a_file",
        "different sinks have different files of rejected rows",
        "tests/unit/pipeline/source/test_dead_letters.py",
        "pipeline/source/dead_letters.py",
        'return f"{short}~{digest}"',
        'return f"{short}~"',
    ),
    tested(
        "application_writes_any_number_of_bytes",
        "an application writes a bounded number of bytes",
        f"{STAGING_TESTS}::test_an_application_writes_a_bounded_number_of_bytes",
        LEDGERS,
        "self._bytes_left <= 0 and self._application.bytes_max > 0",
        "False",
    ),
    tested(
        "application_has_a_bound_that_a_member_lacks",
        "all members execute an application alike",
        "tests/unit/server/calls/test_dispatcher.py",
        "server/calls/admission_control.py",
        "return APPLICATION_BYTES_MAX if is_supported else 0",
        "return APPLICATION_BYTES_MAX",
    ),
)
