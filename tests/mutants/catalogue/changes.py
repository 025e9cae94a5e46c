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
GAPS = "server/changes/gap_filling.py"
PIECES = "wire/pieces.py"
PIECE_TESTS = "tests/unit/wire/test_pieces.py"
READERS_TESTS = "tests/unit/server/changes/test_readers.py"
GAP_TESTS = "tests/unit/server/changes/test_gap_filling.py"
CLIENT = "client/changes.py"
CLIENT_TESTS = "tests/unit/client/test_changes.py"
STAGES = "wire/tentative.py"
STAGE_TESTS = "tests/unit/wire/test_tentative.py"
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
        "        if type(key) is tuple and key and key[0] in RESERVED_PREFIXES:",
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
    tested(
        "feed_gives_no_commit_timestamp",
        "the commit timestamp is the time at which the replica reported the change",
        f"{FEED_TESTS}::test_the_commit_timestamp_is_the_time_of_the_report",
        FEED,
        "self._held.append((position, self._clock(), changes))",
        "self._held.append((position, 0, changes))",
    ),
    tested(
        "gap_filling_writes_beyond_the_gap",
        "copied changes end where the replica's own ones begin",
        f"{GAP_TESTS}::test_a_gap_is_filled_from_a_peer",
        GAPS,
        "        last = min(end, stop)",
        "        last = end",
    ),
    tested(
        "gap_filling_gives_up_after_an_absent_change",
        "a replica copies what its peers have after the changes that all of them lack",
        f"{GAP_TESTS}::test_what_all_peers_lack_stays_a_gap_and_is_tried_again_later",
        GAPS,
        "                start = min(absent.values())",
        "                start = stop",
    ),
    tested(
        "gap_filling_floods_a_peer",
        "one part is requested at a time",
        f"{GAP_TESTS}::test_one_part_is_requested_at_a_time",
        GAPS,
        "self._ticks - self._requested_tick < RESPONSE_TICKS_MAX",
        "self._ticks - self._requested_tick < 1",
    ),
    tested(
        "gap_filling_accepts_late_frames",
        "a response that was given up is ignored",
        f"{GAP_TESTS}::test_one_part_is_requested_at_a_time",
        GAPS,
        "if request is None or (request.number, request.peer) != (message.number, sender):",
        "if request is None:",
    ),
    tested(
        "gap_filling_copies_what_has_expired",
        "what the retention has dropped is not copied again",
        f"{GAP_TESTS}::test_what_the_retention_has_dropped_is_not_copied_again",
        LOG,
        "            self._dropped_index = segment.end\n",
        "",
    ),
    tested(
        "log_loses_the_order_of_copied_segments",
        "segments are in the order of their indices",
        f"{GAP_TESTS}::test_a_gap_is_filled_from_a_peer",
        LOG,
        "self._segments.insert(self._segment_number(frame.first), fill)",
        "self._segments.append(fill)",
    ),
    tested(
        "stream_repeats_the_start_of_a_frame",
        "a reader receives no change before its position",
        CLIENT_TESTS,
        CLIENT,
        "if each.index >= part.first]",
        "if each.index > 0]",
    ),
    tested(
        "stream_skips_received_changes",
        "the position of a stream is that of the next change that the program takes",
        CLIENT_TESTS,
        CLIENT,
        "        if self._changes and self._changes[-1].index:",
        "        if False:",
    ),
    tested(
        "stages_hide_revisions",
        "a request whose result differs is revised",
        STAGE_TESTS,
        STAGES,
        "            elif not _is_same_result(seen, change):",
        "            elif False:",
    ),
    tested(
        "stages_withdraw_pending_requests",
        "a request that awaits its execution keeps its stage",
        STAGE_TESTS,
        STAGES,
        "{change.id for change in changes}.union(pending)",
        "{change.id for change in changes}",
    ),
    tested(
        "final_stage_forgets_what_was_shown",
        "a final change is revised if its result differs from the one that was shown",
        STAGE_TESTS,
        STAGES,
        "seen = self._seen.pop(change.id, None)",
        "seen = None",
    ),
    tested(
        "table_change_calls_every_write_an_insertion",
        "without values before the changes, insertions and updates are not distinguished",
        "tests/unit/wire/test_table_changes.py",
        "wire/table_changes.py",
        "kind = WRITE if before is None else INSERT if previous is None else UPDATE",
        "kind = INSERT if previous is None else UPDATE",
    ),
    tested(
        "table_rows_show_stored_nulls",
        "a stored NULL of an added column is NULL",
        "tests/unit/sql/test_table_rows.py",
        "sql/table_rows.py",
        "    return None if type(item) is tuple and item == STORED_NULL else item",
        "    return item",
    ),
    tested(
        "key_columns_are_rounded",
        "an integer in a key is decoded exactly",
        "tests/unit/sql/test_key_codec.py",
        "sql/key_codec.py",
        "number = int(nearest) + int(text[16:], 16) - _RESIDUAL_OFFSET",
        "number = int(nearest)",
    ),
    tested(
        "torture_accepts_repeated_changes",
        "a follower receives no change twice",
        "tests/unit/torture/test_follower.py",
        "torture/follower.py",
        "        if change.index <= last:",
        "        if change.index < last:",
    ),
    tested(
        "readers_reject_a_large_change",
        "every committed change can be read, whatever its size",
        f"{READERS_TESTS}::test_changes_of_any_size_are_read_in_messages_of_bounded_size",
        READERS,
        "if request.offset == NO_PIECES:",
        "if True:",
    ),
    tested(
        "pieces_of_two_encodings_are_joined",
        "only pieces of one encoding are joined",
        PIECE_TESTS,
        PIECES,
        "if piece.offset != self.next_offset or whole != self._whole:",
        "if piece.offset != self.next_offset:",
    ),
    tested(
        "gap_filling_sends_large_changes_whole",
        "a change that exceeds a message is copied in pieces",
        f"{GAP_TESTS}::test_a_change_that_exceeds_a_message_is_copied_in_pieces",
        GAPS,
        "if len(body) <= self._piece_bytes:",
        "if True:",
    ),
    tested(
        "gap_filling_awaits_pieces_of_a_lost_peer",
        "pieces of a peer that was lost are given up",
        f"{GAP_TESTS}::test_a_part_of_a_change_from_a_lost_peer_is_not_joined",
        GAPS,
        "if unfinished is not None and unfinished.peer in peers:",
        "if unfinished is not None:",
    ),
    tested(
        "earliest_omits_changes_of_other_replicas",
        "a replica that lacks changes which others may keep is no source of the earliest one",
        READERS_TESTS,
        READERS,
        "            self._check_earliest(feed)\n",
        "            pass\n",
    ),
    tested(
        "gap_is_lasting_once_one_member_lacks_it",
        "a gap may be filled until all members lack its changes",
        f"{GAP_TESTS}::test_a_gap_is_fillable_until_all_members_lack_its_changes",
        GAPS,
        "if not absent.keys() >= set(sources):",
        "if not absent:",
    ),
    tested(
        "expired_changes_are_a_gap_after_a_restart",
        "what the retention has dropped is no gap",
        f"{LOG_TESTS}::test_changes_that_have_expired_are_no_gap_after_a_restart",
        LOG,
        "self._dropped_index = self._read_dropped_index()",
        "self._dropped_index = FIRST_INDEX",
    ),
    tested(
        "new_segment_has_no_durable_name",
        "a sync makes the name of a new segment durable",
        f"{LOG_TESTS}::test_a_sync_makes_the_name_of_a_new_segment_durable",
        LOG,
        "fdatasync(duplicate)\n                self._file_ops.sync_directory(self._directory)\n",
        "fdatasync(duplicate)\n",
    ),
    tested(
        "unwritten_changes_have_any_size",
        "changes that wait for the log are bounded by their size",
        f"{FEED_TESTS}::test_unwritten_changes_are_bounded_by_their_size",
        FEED,
        "            or self._measured_bytes > self._unwritten_bytes_max\n",
        "",
    ),
)
