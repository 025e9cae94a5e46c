"""Mutants of the clients for SQL: scripts, DB-API, dialect, shell and HTTP."""

from tests.mutants.catalogue import MutantWithTests, tested

SCRIPT = "datatypes/sql_script.py"
SCRIPT_TESTS = "tests/unit/datatypes/test_sql_script.py"
TRANSACTION = "dbapi/transaction.py"
CONNECTION = "dbapi/connection.py"
DBAPI_TESTS = "tests/sql_clients/test_dbapi.py"
DIALECT = "sqlalchemy/dialect.py"
DIALECT_TESTS = "tests/sql_clients/test_sqlalchemy.py"

MUTANTS: tuple[MutantWithTests, ...] = (
    tested(
        "commit_ignores_changed_results",
        "a strong transaction commits only with the results that its client received",
        SCRIPT_TESTS,
        SCRIPT,
        "if outcome.digest != expected:",
        "if outcome.digest != expected and position > 0:",
    ),
    tested(
        "script_uses_the_request_of_each_execution",
        "row ids, times and random numbers are equal in all executions of a script",
        f"{SCRIPT_TESTS}::test_a_commit_repeats_row_ids_random_numbers_and_times",
        SCRIPT,
        "origin.timestamp, Dot(origin.replica, origin.event), operation",
        "tx.timestamp, Dot(origin.replica, origin.event), operation",
    ),
    tested(
        "failed_batch_keeps_its_first_rows",
        "a statement that fails has no effect",
        SCRIPT_TESTS,
        SCRIPT,
        "            self._transaction.roll_back_to(before)\n",
        "",
    ),
    tested(
        "rollback_to_a_savepoint_keeps_the_schema",
        "a rollback to a savepoint undoes changes of the schema",
        SCRIPT_TESTS,
        "sql/engine.py",
        "        session.schema = None\n",
        "",
    ),
    tested(
        "overtaken_transaction_continues",
        "an overtaken transaction fails until it is rolled back",
        f"{DBAPI_TESTS}::test_an_overtaken_transaction_stays_failed_until_it_is_rolled_back",
        TRANSACTION,
        "            self._is_aborted = True\n",
        "",
    ),
    tested(
        "strong_commit_is_sent_without_digests",
        "a strong commit compares the results of its statements",
        f"{DBAPI_TESTS}::test_a_strong_transaction_fails_if_its_reads_have_changed",
        TRANSACTION,
        "digests: tuple[str, ...] | None = tuple([each.digest for each in entries])",
        "digests: tuple[str, ...] | None = None",
    ),
    tested(
        "autocommit_drops_the_open_transaction",
        "switching to autocommit commits the open transaction",
        f"{DBAPI_TESTS}::test_autocommit_commits_the_open_transaction",
        CONNECTION,
        "            self.commit()\n        self._autocommit",
        "            self.rollback()\n        self._autocommit",
    ),
    tested(
        "context_manager_commits_after_an_error",
        "an exception that leaves the context manager rolls back",
        f"{DBAPI_TESTS}::test_the_context_manager_commits_unless_an_error_leaves_it",
        CONNECTION,
        "if kind is None and self._database is not None:",
        "if self._database is not None:",
    ),
    tested(
        "weak_preview_fails_like_a_strong_one",
        "a weak transaction never fails because of concurrent changes",
        f"{DBAPI_TESTS}::test_one_strong_statement_makes_its_transaction_strong",
        TRANSACTION,
        "self.is_strong = False",
        "self.is_strong = True",
    ),
    tested(
        "dialect_ignores_the_consistency_of_statements",
        "the execution option of a statement replaces the consistency of the URL",
        f"{DIALECT_TESTS}::test_the_consistency_of_a_statement_replaces_that_of_the_url",
        DIALECT,
        'cursor.consistency = context.execution_options.get("consistency")',
        "cursor.consistency = None",
    ),
    tested(
        "semicolons_in_quotes_end_statements",
        "a semicolon in quotes does not end a statement",
        "tests/unit/cli/test_sql_text.py",
        "cli/sql_text.py",
        'if tokens and tokens[-1].text == ";":',
        "if end >= 0:",
    ),
    tested(
        "http_sends_changes_as_queries",
        "statements are read-only only if all of them are queries",
        "tests/http/test_sql.py::test_statements_are_one_transaction",
        "http/sql.py",
        "is_reading = all(",
        "is_reading = any(",
    ),
    tested(
        "http_never_tags_integers",
        "large integers of SQL results are tagged on request",
        "tests/http/test_sql.py::test_large_integers_are_tagged_on_request",
        "http/requests.py",
        'is_tagged = query.get("integers") == _TAGGED',
        "is_tagged = False",
    ),
    tested(
        "another_engine_is_reported_as_busy",
        "replicas with different SQL engines are no reason for a retry",
        "tests/unit/dbapi/test_errors.py",
        "dbapi/errors.py",
        'DIFFERENT_CODE_SQLSTATE: Final = "55000"',
        "DIFFERENT_CODE_SQLSTATE: Final = BUSY_SQLSTATE",
    ),
)
