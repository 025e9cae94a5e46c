"""Mutants of the jobs that follow a live cluster: counts, checks, and batches that recur."""

from tests.mutants.catalogue import MutantWithTests, tested

CHECKS = "pipeline/watch/checks.py"
CHECK_TESTS = "tests/pipeline/test_watch_checks.py"
MEASURES = "pipeline/watch/measures.py"
MEASURE_TESTS = "tests/pipeline/test_watch_measures.py"
SOURCE = "pipeline/watch/source.py"
SOURCE_TESTS = "tests/pipeline/test_watch_source.py"
REPLAY = "pipeline/watch/replay.py"
REPLAY_TESTS = "tests/pipeline/test_watch_replay.py"
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
    tested(
        "replay_executes_applications_of_sinks",
        "the staged rows of an application are not in the feed, so its writes are adopted",
        REPLAY_TESTS,
        REPLAY,
        "if change.operation == APPLY:",
        "if False:",
    ),
    tested(
        "replay_runs_no_operations_of_creek",
        "loads and batches are executed as at the replicas",
        REPLAY_TESTS,
        REPLAY,
        "Sequential(DeduplicatingDataType(datatype))",
        "Sequential(datatype)",
    ),
    tested(
        "replay_adopts_loads",
        "the writes of a load are checked",
        REPLAY_TESTS,
        REPLAY,
        "if change.operation == APPLY:",
        'if change.operation.startswith("creek."):',
    ),
    tested(
        "watch_passes_over_lost_changes",
        "a replay ends where no replica has the changes",
        f"{REPLAY_TESTS}::test_the_first_gap_of_ranges_is_found",
        "pipeline/watch/auditor.py",
        "        if start >= stop or first > start:",
        "        if start >= stop:",
    ),
    tested(
        "watch_begins_at_a_moving_index",
        "the first batch of a stream states where it begins",
        SOURCE_TESTS,
        SOURCE,
        ' | {"first": first}',
        "",
    ),
    tested(
        "watch_leaves_an_unknown_replica_out",
        "a server that never responded is awaited",
        SOURCE_TESTS,
        SOURCE,
        "elif server not in numbers:",
        "elif False:",
    ),
    tested(
        "watch_requests_no_pieces",
        "a change that exceeds a message is read in pieces",
        f"{SOURCE_TESTS}::test_a_change_that_exceeds_a_message_is_read_in_pieces",
        "pipeline/watch/feeds.py",
        "messages.ChangesRequest(self._number, start, cluster, offset=offset)",
        "messages.ChangesRequest(self._number, start, cluster)",
    ),
    tested(
        "audit_judges_late_changes_again",
        "an index is judged once, without the replicas that were left out",
        f"{CHECK_TESTS}::test_a_sound_history_is_judged_once_all_replicas_have_it",
        "pipeline/watch/auditor.py",
        '.where(f"index >= {earlier.frontier}")',
        '.where("true")',
    ),
)
