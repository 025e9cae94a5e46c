"""Mutants of the jobs that follow a live cluster: counts, checks, and batches that recur."""

from tests.mutants.catalogue import MutantWithTests, tested

CHECKS = "pipeline/watch/checks.py"
CHECK_TESTS = "tests/pipeline/test_watch_checks.py"
MEASURES = "pipeline/watch/measures.py"
MEASURE_TESTS = "tests/pipeline/test_watch_measures.py"
SOURCE = "pipeline/watch/source.py"
SOURCE_TESTS = "tests/pipeline/test_watch_source.py"
TABLES = "pipeline/watch/batch_tables.py"
TABLE_TESTS = "tests/pipeline/test_watch_batch_tables.py"

MUTANTS: tuple[MutantWithTests, ...] = (
    tested(
        "watch_ignores_missing_changes",
        "a change that one replica lacks is a violation",
        CHECK_TESTS,
        CHECKS,
        'missing = expected.where("not array_contains(present, replica)")',
        'missing = expected.where("false")',
    ),
    tested(
        "watch_takes_a_retried_call_for_a_repetition",
        "a call that is committed again without an effect is no violation",
        CHECK_TESTS,
        CHECKS,
        '.where("has_effect and earlier < index")',
        '.where("earlier < index")',
    ),
    tested(
        "watch_forgets_earlier_batches",
        "a call is compared with those of earlier batches",
        CHECK_TESTS,
        CHECKS,
        'F.coalesce("seen_index", F.min("index").over(order))',
        'F.min("index").over(order)',
    ),
    tested(
        "watch_substitutes_the_flag_of_another_replica",
        "only the replica that issued a call knows whether its response changed",
        SOURCE_TESTS,
        SOURCE,
        "msgspec.structs.replace(change, changed=None, commit_timestamp=0)",
        "msgspec.structs.replace(change, changed=False)",
    ),
    tested(
        "watch_counts_changes_of_all_replicas",
        "each change is counted once, from the replica that issued it",
        SOURCE_TESTS,
        SOURCE,
        "return [change for change in changes if change.replica == partition.replica]",
        "return changes",
    ),
    tested(
        "watch_abandons_a_silent_replica_at_once",
        "a replica that does not respond is awaited",
        SOURCE_TESTS,
        SOURCE,
        "end = newest if silent_s >= self._options.patience_s else start",
        "end = newest",
    ),
    tested(
        "watch_reads_merged_files_twice",
        "rows of an interrupted merge are counted once",
        TABLE_TESTS,
        TABLES,
        "                continue  # merged, but not removed yet",
        "                pass",
    ),
    tested(
        "watch_merges_the_current_batch",
        "the last batch can be repeated",
        TABLE_TESTS,
        TABLES,
        "before = [each for each in self._files() if each.last < batch]",
        "before = self._files()",
    ),
    tested(
        "watch_counts_strong_calls_as_apologies",
        "an apology is a weak call whose response changed",
        MEASURE_TESTS,
        MEASURES,
        'commits.where(~F.col("strong"))',
        'commits.where("true")',
    ),
)
