"""Mutants of wire formats, deduplication, and the driver of simulated and live replicas."""

from tests.mutants.catalogue import MutantWithTests, tested

FRAMING = "wire/framing.py"
FRAMING_TESTS = "tests/unit/wire/test_framing.py"
DEDUPLICATION = "wire/deduplication.py"
DEDUPLICATION_TESTS = (
    "tests/unit/wire/test_deduplication.py",
    "tests/unit/wire/test_deduplication_retention.py",
    "tests/unit/server/calls/test_expiry.py",
)
JSON_VALUES = "wire/json_values.py"
JSON_TESTS = "tests/unit/wire/test_json_values.py"
ADDRESSES = "wire/addresses.py"
ADDRESS_TESTS = "tests/unit/wire/test_addresses.py"
MESSAGES = "wire/messages.py"
VERSION_TESTS = "tests/unit/wire/test_messages_versions.py"
EVENT_LOG = "wire/event_log.py"
EVENT_TESTS = "tests/unit/wire/test_event_log.py"
DEV_CONTROL = "wire/dev_control.py"
DEV_CONTROL_TESTS = "tests/unit/wire/test_dev_control.py"
REASONS = "wire/reject_reason.py"
REASON_TESTS = "tests/unit/wire/test_reject_reason.py"
PARTS = "driver/snapshot_parts.py"
PART_TESTS = "tests/unit/driver/test_snapshot_parts.py"
WRITER = "driver/checkpoint_writer.py"
WRITER_TESTS = "tests/unit/driver/test_checkpoint_writer.py"

MUTANTS: tuple[MutantWithTests, ...] = (
    tested(
        "frame_of_the_maximum_size_is_rejected",
        "a frame may have the maximum size",
        FRAMING_TESTS,
        FRAMING,
        "if length > self.payload_bytes_max:",
        "if length >= self.payload_bytes_max:",
    ),
    tested(
        "frame_is_decoded_before_its_last_byte",
        "a frame is decoded once it is complete",
        FRAMING_TESTS,
        FRAMING,
        "if end - begin < length:",
        "if end - begin + 1 < length:",
    ),
    tested(
        "frame_writer_never_overflows",
        "a connection with too many unsent bytes is aborted",
        FRAMING_TESTS,
        FRAMING,
        "        if self._abort_when_full and self.is_full:",
        "        if self._abort_when_full and self.has_overflowed:",
    ),
    tested(
        "tls_handshake_is_taken_for_a_frame",
        "a TLS client at a plain port learns the reason",
        FRAMING_TESTS,
        FRAMING,
        "        return RejectReason.UNEXPECTED_TLS\n",
        "        return None\n",
    ),
    tested(
        "deduplication_ignores_other_operations",
        "a number that another operation used is an error",
        DEDUPLICATION_TESTS,
        DEDUPLICATION,
        "        if fingerprint != _fingerprint(name, arguments):",
        "        if fingerprint == 0:",
    ),
    tested(
        "deduplication_lets_old_calls_replace_new_ones",
        "an overtaken call does not replace a later outcome",
        DEDUPLICATION_TESTS,
        DEDUPLICATION,
        "if stored is ABSENT or stored[0] < number:",
        "if stored is ABSENT or stored[0] != number:",
    ),
    tested(
        "deduplication_stores_long_values",
        "long return values are not retained",
        DEDUPLICATION_TESTS,
        DEDUPLICATION,
        "        if not _is_small(value):",
        "        if _is_small(value) and False:",
    ),
    tested(
        "deduplication_expires_recent_calls",
        "a call at the limit does not expire",
        DEDUPLICATION_TESTS,
        DEDUPLICATION,
        "if view.read(key)[1] < before_us]",
        "if view.read(key)[1] <= before_us]",
    ),
    tested(
        "deduplication_expiry_skips_a_register",
        "an expiry continues at the first register that was not visited",
        DEDUPLICATION_TESTS,
        DEDUPLICATION,
        "visited = list(islice(keys, EXPIRY_BATCH_MAX + 1))",
        "visited = list(islice(keys, EXPIRY_BATCH_MAX + 2))",
    ),
    tested(
        "deduplication_returns_forgotten_outcomes",
        "an outcome that was not retained is not returned to a query",
        "tests/cluster/test_client_final_outcomes.py",
        DEDUPLICATION,
        "stored[0] != number or stored[3] == RESPONSE_NOT_KEPT:",
        "stored[0] != number:",
    ),
    tested(
        "operations_may_write_reserved_registers",
        "no operation can write the registers of Creek by an addition",
        DEDUPLICATION_TESTS,
        DEDUPLICATION,
        "for written in (execution.writes, execution.blind_adds):",
        "for written in (execution.writes,):",
    ),
    tested(
        "json_wraps_no_dicts",
        "a dict with the key of a wrapper is wrapped",
        JSON_TESTS,
        JSON_VALUES,
        "return {DICT_KEY: encoded} if _is_wrapped(value) else encoded",
        "return encoded",
    ),
    tested(
        "json_accepts_damaged_base64",
        "bytes must be valid base64",
        JSON_TESTS,
        JSON_VALUES,
        "base64.b64decode(value[BYTES_KEY], validate=True)",
        "base64.b64decode(value[BYTES_KEY])",
    ),
    tested(
        "json_tags_no_integer_at_the_bound",
        "an integer that a float would round is tagged",
        JSON_TESTS,
        JSON_VALUES,
        "FLOAT_INTEGER_MAX: Final = 2**53 - 1",
        "FLOAT_INTEGER_MAX: Final = 2**53 + 1",
    ),
    tested(
        "address_accepts_a_port_beyond_16_bits",
        "a port is at most 65,535",
        ADDRESS_TESTS,
        ADDRESSES,
        "PORT_MAX: Final = 65_535",
        "PORT_MAX: Final = 65_536",
    ),
    tested(
        "address_of_ipv6_is_ambiguous",
        "an IPv6 address is written in brackets",
        ADDRESS_TESTS,
        ADDRESSES,
        'return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"',
        'return f"{host}:{port}"',
    ),
    tested(
        "version_below_the_oldest_is_accepted",
        "both sides support the common version",
        VERSION_TESTS,
        MESSAGES,
        "return common if common >= max(oldest or version, OLDEST_WIRE_VERSION) else None",
        "return common if common >= (oldest or version) else None",
    ),
    tested(
        "log_suppresses_one_event_early",
        "ten events of a topic are logged in a window",
        EVENT_TESTS,
        EVENT_LOG,
        "        if self.count < EVENTS_PER_WINDOW_MAX:",
        "        if self.count + 1 < EVENTS_PER_WINDOW_MAX:",
    ),
    tested(
        "log_loses_the_last_event_at_a_stop",
        "suppressed events are logged when the replica stops",
        EVENT_TESTS,
        EVENT_LOG,
        "            self.flush_suppressed(at_once=True)",
        "            self.flush_suppressed()",
    ),
    tested(
        "control_line_is_lost_between_reads",
        "a control message may arrive in pieces",
        DEV_CONTROL_TESTS,
        DEV_CONTROL,
        "(self._partial_line + data).split",
        "data.split",
    ),
    tested(
        "busy_is_a_permanent_rejection",
        "an overloaded replica may accept the call later",
        REASON_TESTS,
        REASONS,
        'BUSY = "busy", RejectRule("The replica is overloaded", _RETRY_LATER)',
        'BUSY = "busy", RejectRule("The replica is overloaded", 500)',
    ),
    # --- driver ---------------------------------------------------------------------------------
    tested(
        "snapshot_parts_may_be_missing",
        "a part continues the previous one",
        PART_TESTS,
        PARTS,
        "            part.preceding_count != preceding",
        "            part.preceding_count < preceding",
    ),
    tested(
        "snapshot_part_may_remove_registers",
        "the number of remaining registers is not negative",
        PART_TESTS,
        PARTS,
        "            or part.remaining_count < 0\n",
        "",
    ),
    tested(
        "snapshot_is_assembled_before_its_last_part",
        "a snapshot follows all of its parts",
        PART_TESTS,
        PARTS,
        "        if self._remaining_count:",
        "        if self._remaining_count < 0:",
    ),
    tested(
        "snapshot_may_exceed_the_registers",
        "the registers of a snapshot are bounded from its first part on",
        PART_TESTS,
        PARTS,
        "if preceding + count + part.remaining_count > self._registers_max:",
        "if preceding + count > self._registers_max:",
    ),
    tested(
        "snapshot_keeps_outcomes_above_the_limit",
        "the last message of a snapshot fits a frame",
        PART_TESTS,
        PARTS,
        "    if len(payload) > payload_bytes_max:",
        "    if len(payload) > 2 * payload_bytes_max:",
    ),
    tested(
        "checkpoint_replaces_one_in_progress",
        "a checkpoint that is being encoded is not superseded",
        WRITER_TESTS,
        WRITER,
        "started = self._jobs[:1] if self._is_encoding else []",
        "started: list[_EncodingJob] = []",
    ),
    tested(
        "snapshot_replaces_that_of_another_replica",
        "a snapshot supersedes only one for the same replica",
        WRITER_TESTS,
        WRITER,
        "isinstance(new.source, StreamedSnapshot) and old.source.to == new.source.to",
        "isinstance(new.source, StreamedSnapshot)",
    ),
    tested(
        "checkpoint_follows_later_records",
        "a checkpoint has its position among the records of a batch",
        WRITER_TESTS,
        WRITER,
        "self._store.append(records[appended : checkpoint.preceding_records])",
        "self._store.append(records[appended : checkpoint.preceding_records + 1])",
    ),
    tested(
        "checkpoints_are_written_concurrently",
        "one checkpoint is written at a time",
        WRITER_TESTS,
        WRITER,
        "            self._is_writing = True\n",
        "",
    ),
    tested(
        "checkpoint_turns_do_not_shrink",
        "fewer large registers are encoded per turn",
        WRITER_TESTS,
        WRITER,
        "self._registers_per_turn = max(1, self._registers_per_turn // 2)",
        "self._registers_per_turn = max(1, self._registers_per_turn)",
    ),
)
