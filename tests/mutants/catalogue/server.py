"""Mutants of the live server: journal, transport, backups, divergence, expiry and tokens."""

from tests.mutants.catalogue import Edit, MutantWithTests, tested

SEGMENTS = "server/storage/segments.py"
DAMAGE_TESTS = "tests/unit/server/storage/test_journal_damage.py"
DATA_DIR = "server/storage/data_dir.py"
DATA_DIR_TESTS = "tests/unit/server/storage/test_data_dir.py"
DRIVER = "server/runtime/driver.py"
DRIVER_TESTS = "tests/unit/server/runtime/test_driver.py"
LOCK = "server/runtime/replica_lock.py"
LOCK_TESTS = "tests/unit/server/runtime/test_replica_lock.py"
DIVERGENCE = "server/observability/divergence.py"
DIVERGENCE_TESTS = "tests/unit/server/observability/test_divergence.py"
LATENCY = "server/observability/latency.py"
METRIC_TESTS = "tests/unit/server/observability/test_metrics.py"
EXPIRY = "server/calls/expiry.py"
EXPIRY_TESTS = "tests/unit/server/calls/test_expiry.py"
KEEPALIVE = "server/transport/keepalive.py"
KEEPALIVE_TESTS = "tests/unit/server/transport/test_keepalive.py"
BACKUP = "server/backup/format.py"
BACKUP_TESTS = "tests/unit/server/backup/test_format.py"
TICKET = "server/membership/join_ticket.py"
TICKET_TESTS = "tests/unit/server/membership/test_join_ticket.py"
TOKENS = "server/security/authentication.py"
TOKEN_TESTS = "tests/unit/server/security/test_authentication.py"
CERTIFICATES = "server/security/certificates.py"
CERTIFICATE_TESTS = "tests/unit/server/security/test_certificates.py"

MUTANTS: tuple[MutantWithTests, ...] = (
    # --- storage --------------------------------------------------------------------------------
    tested(
        "journal_accepts_damaged_records",
        "the checksum of a group covers its records",
        DAMAGE_TESTS,
        SEGMENTS,
        "if len(body) < header.body_bytes or crc32(body, segment.salt) != header.checksum:",
        "if len(body) < header.body_bytes:",
    ),
    tested(
        "journal_accepts_groups_of_another_file",
        "the salt of a segment is part of its checksums",
        DAMAGE_TESTS,
        SEGMENTS,
        "header_checksum != crc32(data[at : at + _GROUP_HEADER.size], salt):",
        "header_checksum != crc32(data[at : at + _GROUP_HEADER.size]):",
    ),
    tested(
        "journal_skips_damage_before_later_groups",
        "damage before later records is not mistaken for an incomplete write",
        DAMAGE_TESTS,
        SEGMENTS,
        "if written > end and _has_later_group(data, end, segment, position):",
        "if written < end and _has_later_group(data, end, segment, position):",
    ),
    tested(
        "journal_accepts_a_missing_segment",
        "the first segment begins at the first record or is a checkpoint",
        DAMAGE_TESTS,
        SEGMENTS,
        "    if begin > segment.skipped_checkpoints and not segment.is_checkpoint:",
        "    if begin < 0:",
    ),
    tested(
        "journal_accepts_a_renamed_segment",
        "a segment has the name of its number",
        DAMAGE_TESTS,
        SEGMENTS,
        "    if path.name != segment_file_name(number):",
        "    if not path.name:",
    ),
    tested(
        "data_directory_serves_another_replica",
        "a data directory belongs to one replica",
        DATA_DIR_TESTS,
        DATA_DIR,
        "if recorded is not None and recorded != owner:",
        "if recorded is not None and recorded.cluster != owner.cluster:",
    ),
    tested(
        "data_directory_changes_its_owner",
        "the recorded owner of a directory is kept",
        DATA_DIR_TESTS,
        DATA_DIR,
        "    if not path.exists():\n        with suppress",
        "    if path.parent.exists():\n        with suppress",
    ),
    # --- runtime --------------------------------------------------------------------------------
    tested(
        "driver_merges_casts_of_different_receivers",
        "requests are merged only if they are for the same replicas",
        DRIVER_TESTS,
        DRIVER,
        "casts.setdefault(each.to, []).extend(each.message.requests)",
        "casts.setdefault(sends[0].to, []).extend(each.message.requests)",
    ),
    tested(
        "driver_sends_after_it_was_halted",
        "a halted replica sends nothing",
        DRIVER_TESTS,
        DRIVER,
        "        if self._is_halted:\n            return\n        effects, recorder",
        "        effects, recorder",
    ),
    MutantWithTests(
        "driver_does_not_sync_held_outputs",
        "records of held outputs are synced",
        (DRIVER_TESTS,),
        (
            Edit(
                DRIVER,
                "sync = bool(effects.send or effects.respond or effects.snapshots)",
                "sync = False",
            ),
            Edit(
                DRIVER, "        if rule.held_count and (effects", "        if False and (effects"
            ),
        ),
    ),
    tested(
        "lock_repeats_the_last_key_of_a_batch",
        "a scan continues after the last key",
        LOCK_TESTS,
        LOCK,
        "scan = scan.after(batch[-1])",
        "scan = RangeScan(collation_key(batch[-1]), scan.stop, scan.reverse)",
    ),
    tested(
        "lock_ends_a_scan_after_one_batch",
        "a scan returns the keys of all batches",
        LOCK_TESTS,
        LOCK,
        "            if len(batch) < batch_size:",
        "            if len(batch) <= batch_size:",
    ),
    # --- calls ----------------------------------------------------------------------------------
    tested(
        "expiry_ignores_absent_members",
        "calls are retained longer while a member is absent",
        EXPIRY_TESTS,
        EXPIRY,
        "self._in_step_marks + 1 if stable_everywhere >= self._stable_instance > 0 else 0",
        "self._in_step_marks + 1",
    ),
    tested(
        "expiry_marks_without_a_pause",
        "one interval separates two marks",
        EXPIRY_TESTS,
        EXPIRY,
        "            self._last_mark_seen_s = now_s\n            mark =",
        "            mark =",
    ),
    tested(
        "expiry_runs_one_interval_early",
        "a call expires after its whole retention time",
        EXPIRY_TESTS,
        EXPIRY,
        "before_us = marks[-1 - required].timestamp",
        "before_us = marks[-required].timestamp",
    ),
    # --- transport ------------------------------------------------------------------------------
    tested(
        "liveness_amplifies_short_probes",
        "the responder answers probes of the right length only",
        KEEPALIVE_TESTS,
        KEEPALIVE,
        "if len(data) == PROBE_BYTES and data.startswith(PROBE_PREFIX):",
        "if data.startswith(PROBE_PREFIX):",
    ),
    tested(
        "hello_timeout_is_not_cancelled",
        "a connection whose hello arrived is kept",
        KEEPALIVE_TESTS,
        KEEPALIVE,
        "            self._timer.cancel()",
        "            pass",
    ),
    # --- backup ---------------------------------------------------------------------------------
    tested(
        "backup_accepts_a_wrong_checksum",
        "a damaged backup is rejected",
        BACKUP_TESTS,
        BACKUP,
        "    if stored != checksum.digest():",
        "    if len(stored) != checksum.digest_size:",
    ),
    tested(
        "backup_accepts_trailing_data",
        "a backup ends with its checksum",
        BACKUP_TESTS,
        BACKUP,
        "    if file.read(1):",
        "    if file.read(0):",
    ),
    tested(
        "backup_loses_deleted_registers",
        "a backup contains the deleted registers of the initial state",
        BACKUP_TESTS,
        BACKUP,
        "        deleted += keys\n        yield from items",
        "        yield from items",
    ),
    tested(
        "backup_replaces_an_existing_file",
        "an existing file is replaced only with --force",
        BACKUP_TESTS,
        BACKUP,
        "    if path.exists() and not force:",
        "    if path.exists() and force:",
    ),
    # --- membership and security ----------------------------------------------------------------
    tested(
        "ticket_includes_the_new_replica",
        "a ticket holds the members before the replica was added",
        TICKET_TESTS,
        TICKET,
        "members = tuple(member for member in after.members if member[0] != replica)",
        "members = after.members",
    ),
    tested(
        "ticket_has_the_later_epoch",
        "a ticket has the epoch before the replica was added",
        TICKET_TESTS,
        TICKET,
        "epoch=after.epoch - 1,",
        "epoch=after.epoch,",
    ),
    tested(
        "token_of_any_client_administers",
        "only admin tokens permit membership changes",
        TOKEN_TESTS,
        TOKENS,
        "return not self._admins or self._name_of(token) in self._admins",
        "return not self._admins or self._name_of(token) is not None",
    ),
    tested(
        "token_may_be_omitted",
        "a configuration with tokens requires one",
        TOKEN_TESTS,
        TOKENS,
        "return not self._names or self._name_of(token) is not None",
        "return not self._names or not token or self._name_of(token) is not None",
    ),
    tested(
        "certificate_of_an_authority_is_issued_to_a_replica",
        "an issued certificate cannot sign others",
        CERTIFICATE_TESTS,
        CERTIFICATES,
        "x509.BasicConstraints(is_authority, path_length=0 if is_authority else None)",
        "x509.BasicConstraints(True, path_length=0)",
    ),
    tested(
        "certificate_omits_other_loopback_names",
        "a certificate for this machine is valid for all of its names",
        CERTIFICATE_TESTS,
        CERTIFICATES,
        "        names += LOOPBACK_HOSTS\n",
        "        pass\n",
    ),
    # --- observability --------------------------------------------------------------------------
    tested(
        "divergence_stops_the_majority",
        "a replica continues while a majority agrees with it",
        DIVERGENCE_TESTS,
        DIVERGENCE,
        "        if agree >= self._majority:",
        "        if agree > self._majority:",
    ),
    tested(
        "divergence_is_forgiven_at_once",
        "a peer that differed agrees again only at a later length",
        DIVERGENCE_TESTS,
        DIVERGENCE,
        "if comparison.differs_at is not None and length >= comparison.differs_at:",
        "if comparison.differs_at is not None:",
    ),
    tested(
        "divergence_sends_volatile_digests",
        "a digest is sent once the records behind it are durable",
        DIVERGENCE_TESTS,
        DIVERGENCE,
        "        while unsent and unsent[0][0] <= durable:",
        "        while unsent:",
    ),
    tested(
        "histogram_bounds_are_exclusive",
        "a latency at the bound of a bucket belongs to it",
        METRIC_TESTS,
        LATENCY,
        "self.counts[bisect_left(self.bounds, value)] += 1",
        "self.counts[bisect_left(self.bounds, value + 1e-12)] += 1",
    ),
    tested(
        "replica_reports_no_other_build",
        "a peer with another kind of build is reported",
        "tests/cluster/test_divergence.py::test_replicas_report_another_kind_of_build",
        "server/observability/status.py",
        "if build is not None and build != own",
        "if build == own",
    ),
    tested(
        "idle_replica_wakes_at_every_tick",
        "an idle replica processes two ticks together",
        "tests/unit/server/runtime/test_maintenance.py",
        "server/runtime/maintenance.py",
        "ticks = IDLE_TICKS - round(passed) % IDLE_TICKS",
        "ticks = 1",
    ),
    tested(
        "idle_ticks_jump_to_the_wall_clock",
        "the wall clock shifts a tick by at most a tenth of its interval",
        "tests/unit/server/runtime/test_maintenance.py",
        "server/runtime/maintenance.py",
        "ticks - max(-SLEW_MAX, min(lag, SLEW_MAX))",
        "ticks - lag",
    ),
)
