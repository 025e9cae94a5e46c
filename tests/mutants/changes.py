"""Mutants of the change feed: what it contains, when it is visible, and where it has gaps."""

from tests.mutants.catalogue import MutantWithTests, tested

FEED = "server/changes/feed.py"
FEED_TESTS = "tests/unit/server/changes/test_feed.py"
LOG = "server/changes/log.py"
SEGMENTS = "server/changes/segments.py"
LOG_TESTS = "tests/unit/server/changes/test_log.py"
GATE = "server/changes/checkpoint_gate.py"
GATE_TESTS = "tests/unit/server/changes/test_checkpoint_gate.py"
READERS = "server/changes/readers.py"
READER_TESTS = "tests/cluster/test_changes.py"
ENCODING = "server/changes/encoding.py"
SCHEME_TESTS = "tests/unit/schemes/test_schemes_changes.py"

MUTANTS: tuple[MutantWithTests, ...] = (
    tested(
        "feed_shows_changes_before_they_are_durable",
        "a change is visible once the records before it are durable",
        f"{FEED_TESTS}::test_changes_wait_for_the_journal",
        FEED,
        "while held and held[0][0] <= durable_position:",
        "while held:",
    ),
    tested(
        "feed_ignores_a_snapshot",
        "a replica that installed a snapshot has a gap",
        f"{FEED_TESTS}::test_a_snapshot_without_later_changes_makes_a_gap_at_once",
        FEED,
        "                self._skip_to(head.length + 1)",
        "                pass",
    ),
    tested(
        "feed_repeats_changes_after_a_restart",
        "a replay of the journal continues the feed where it ended",
        f"{FEED_TESTS}::test_a_replay_repeats_nothing",
        FEED,
        "elif head.commit_index < self.log.next_index:",
        "elif head.commit_index < 0:",
    ),
    tested(
        "feed_gives_up_after_a_failed_write",
        "a failed write of the feed is repeated",
        f"{FEED_TESTS}::test_a_failed_write_is_repeated",
        FEED,
        "        self._ports.call_later(RETRY_S, self._run_slice)",
        "        self._released.clear()",
    ),
    tested(
        "feed_exposes_internal_registers",
        "the registers of deduplication are not part of a change",
        f"{FEED_TESTS}::test_a_change_is_encoded_as_the_client_called_it",
        ENCODING,
        "        if _is_reserved(key):",
        "        if False:",
    ),
    tested(
        "log_accepts_a_damaged_frame",
        "the checksum of a frame covers its changes",
        LOG_TESTS,
        SEGMENTS,
        "        if crc32(body, salt) != header.checksum:",
        "        if False:",
    ),
    tested(
        "log_reads_across_a_gap",
        "no reader passes a gap",
        f"{LOG_TESTS}::test_no_read_passes_a_gap",
        LOG,
        "        if at < 0 or index >= self._segments[at].end:",
        "        if at < 0:",
    ),
    tested(
        "log_never_expires_by_size",
        "the size of the feed is bounded",
        f"{LOG_TESTS}::test_the_size_is_bounded",
        LOG,
        "if not is_old and self.size_bytes <= self._retention.bytes_max:",
        "if not is_old:",
    ),
    tested(
        "log_reads_bytes_of_a_failed_write",
        "a reader sees no bytes after the end of a segment",
        f"{FEED_TESTS}::test_a_failed_write_is_repeated",
        LOG,
        "return [frame for frame in frames if frame.end <= end]",
        "return frames",
    ),
    tested(
        "checkpoint_does_not_wait_for_the_feed",
        "a checkpoint is written after the changes before it are durable",
        f"{GATE_TESTS}::test_a_checkpoint_waits_for_the_reported_changes",
        GATE,
        "feed.notify_after(feed.received_index, lambda",
        "feed.notify_after(0, lambda",
    ),
    tested(
        "readers_accept_a_foreign_position",
        "a position of another cluster is rejected",
        f"{READER_TESTS}::test_a_position_of_another_cluster_is_an_error",
        READERS,
        'if query.cluster not in ("", cluster):',
        "if False:",
    ),
    tested(
        "merged_run_is_committed_without_its_writes",
        "each request of a merged run has its own writes",
        f"{SCHEME_TESTS}::test_applying_the_changes_gives_the_stable_state",
        "schemes/core/run_merging.py",
        "            and not self._reports_changes\n",
        "",
    ),
)
