"""Mutants of the interfaces for people: HTTP arguments, commands and the torture test."""

from tests.mutants.catalogue import MutantWithTests, tested

SCHEMA = "http/schema.py"
SCHEMA_TESTS = "tests/unit/http/test_schema.py"
OPERATIONS = "http/operations.py"
OPERATION_TESTS = "tests/unit/http/test_operations.py"
ACCOUNTING = "torture/accounting.py"
ACCOUNTING_TESTS = "tests/unit/torture/test_accounting.py"
TIMELINE = "cli/views/timeline.py"
TIMELINE_TESTS = "tests/unit/cli/views/test_timeline.py"
OPTIONS = "cli/options.py"
OPTION_TESTS = "tests/unit/cli/test_options.py"
DIRECTORY_TESTS = "tests/unit/cli/test_output_directories.py"

MUTANTS: tuple[MutantWithTests, ...] = (
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
        "torture_forgives_rejected_calls",
        "a rejected put is not executed",
        ACCOUNTING_TESTS,
        ACCOUNTING,
        "if call.status is CallStatus.REJECTED and key in state:",
        "if call.status is CallStatus.REJECTED and key not in state:",
    ),
    tested(
        "torture_forgives_duplicate_calls",
        "an increment is executed at most once",
        ACCOUNTING_TESTS,
        ACCOUNTING,
        "if not acknowledged <= count <= acknowledged + unknown:",
        "if not acknowledged <= count:",
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
