"""Mutants of the live server under faults and overload: calls, peers, disks and restores."""

from tests.mutants.catalogue import MutantWithTests, tested

DISPATCHER = "server/calls/dispatcher.py"
DISPATCHER_TESTS = "tests/unit/server/calls/test_dispatcher.py"
ROUTER = "client/call_router.py"
LOCAL_SESSION_TEST = (
    "tests/cluster/test_client_failover.py"
    "::test_a_session_that_has_only_read_locally_continues_at_another_replica"
)
ADMISSION = "server/calls/admission_control.py"
ADMISSION_TESTS = "tests/unit/server/calls/test_admission_control.py"
BUSY_TEST = (
    "tests/cluster/test_limits.py::test_calls_are_rejected_as_busy_while_queued_calls_are_too_old"
)
EXECUTORS = "server/runtime/executors.py"
EXECUTOR_TESTS = "tests/unit/server/runtime/test_executors.py"
PEERS = "server/transport/peers.py"
PEER_TESTS = "tests/unit/server/transport/test_peers.py"
PEER_LINK = "server/transport/peer_link.py"
PEER_LINK_TESTS = "tests/unit/server/transport/test_peer_link.py"
DUPLICATE_TESTS = "tests/cluster/test_duplicate_replicas.py"
AUTHENTICATION = "server/security/authentication.py"
PEER_CERTIFICATE_TEST = (
    "tests/cluster/test_tls.py::test_a_replica_with_an_invalid_certificate_is_rejected_by_peers"
)
IDENTITY_TEST = (
    "tests/cluster/test_tls.py::test_a_certificate_belongs_to_its_identities_or_else_to_its_hosts"
)
CLIENT_CONNECTION = "server/transport/client_connection.py"
FUZZED_CONNECTION_TESTS = "tests/fuzzing/test_connections.py"
MESSAGES = "wire/messages.py"
FORMAT_TESTS = "tests/fuzzing/test_formats.py"
DRIVER = "server/runtime/driver.py"
DRIVER_TESTS = "tests/unit/server/runtime/test_driver.py"
REGISTER_TABLE = "execution/mvcc/register_table.py"
STATE_LOADER = "execution/mvcc/state_loader.py"
REGISTER_TABLE_TESTS = "tests/unit/execution/mvcc/test_register_table.py"
RESTORE = "server/backup/restore.py"
RESTORE_TESTS = "tests/unit/server/backup/test_restore.py"
BACKUP = "server/backup/format.py"
FUZZED_DECODER_TESTS = "tests/fuzzing/test_decoders.py"
SEGMENTS = "server/storage/segments.py"
SEGMENT_WRITER = "server/storage/segment_writer.py"
SEGMENT_TESTS = "tests/unit/server/storage/test_segments.py"
FUZZED_JOURNAL_TESTS = "tests/fuzzing/test_journals.py"

MUTANTS: tuple[MutantWithTests, ...] = (
    # --- calls and sessions -----------------------------------------------------------------------
    tested(
        "call_waits_for_its_first_dependency_only",
        "a call is executed after all calls that it names",
        DISPATCHER_TESTS,
        DISPATCHER,
        "for dot in request.after if not",
        "for dot in request.after[:1] if not",
    ),
    tested(
        "call_waits_for_its_last_dependency_only",
        "a call is executed after all calls that it names",
        DISPATCHER_TESTS,
        DISPATCHER,
        "for dot in request.after if not",
        "for dot in request.after[-1:] if not",
    ),
    tested(
        "session_depends_on_its_local_read",
        "a session that has only read locally continues at any replica",
        LOCAL_SESSION_TEST,
        ROUTER,
        "if context is None and event > 0:",
        "if context is None:",
    ),
    # --- overload ---------------------------------------------------------------------------------
    tested(
        "overload_rejects_by_age_alone",
        "a short queue is admitted, whatever its age is",
        ADMISSION_TESTS,
        ADMISSION,
        "len(arrivals) - self._exempt <= self._served_recently:",
        "False:",
    ),
    tested(
        "overload_never_rejects",
        "calls are rejected while the oldest queued call is too old",
        ADMISSION_TESTS,
        ADMISSION,
        "return self._now_s - next(iter(arrivals.values())) <= self._target_s",
        "return True",
    ),
    tested(
        "overload_ignores_uncommitted_calls",
        "the number of calls that await their commit is bounded",
        BUSY_TEST,
        ADMISSION,
        "or not (local_read or self.uncommitted.has_space())",
        "",
    ),
    tested(
        "overload_rejects_short_queues",
        "a short queue for commits is never an overload",
        ADMISSION_TESTS,
        ADMISSION,
        "len(arrivals) <= self._length_min:",
        "not arrivals:",
    ),
    tested(
        "overload_rejects_during_long_stalls",
        "a queue that is stalled for long always has space",
        ADMISSION_TESTS,
        ADMISSION,
        "if self._is_stalled_long or len(arrivals) <= self._length_min:",
        "if len(arrivals) <= self._length_min:",
    ),
    tested(
        "tasks_get_a_fixed_slice",
        "the time slice of tasks follows the duration of other work",
        EXECUTOR_TESTS,
        EXECUTORS,
        "min(max(elapsed_s, SLICE_S_MIN), SLICE_S_MAX)",
        "SLICE_S_MIN",
    ),
    # --- peers ------------------------------------------------------------------------------------
    tested(
        "old_connection_of_a_returning_replica_stays_open",
        "a new connection of a replica closes its old one",
        PEER_TESTS,
        PEERS,
        "if other.sender == hello.replica:\n                    other.close()",
        "if other.sender == hello.replica:\n                    pass",
    ),
    tested(
        "messages_of_a_closing_connection_are_received",
        "a connection that was closed delivers no more messages",
        PEER_TESTS,
        PEERS,
        "if self._transport is None or self._transport.is_closing():\n                    return",
        "if self._transport is None:\n                    return",
    ),
    tested(
        "refused_clone_continues",
        "a replica that its peers refuse as a clone stops",
        DUPLICATE_TESTS,
        PEER_LINK,
        "                self._peers.on_duplicate(hello.message)\n",
        "                pass\n",
    ),
    tested(
        "redial_pause_never_restarts",
        "a lasting connection resets the pause before a redial",
        PEER_LINK_TESTS,
        PEER_LINK,
        "if loop.time() >= connected_at + BACKOFF_RESET_S:",
        "if loop.time() < connected_at:",
    ),
    tested(
        "certificate_of_another_host_is_accepted",
        "a certificate names the host of its replica",
        PEER_CERTIFICATE_TEST,
        AUTHENTICATION,
        "    return _load_context(ssl.Purpose.SERVER_AUTH, security)\n",
        "    context = _load_context(ssl.Purpose.SERVER_AUTH, security)\n"
        "    context.check_hostname = False\n"
        "    return context\n",
    ),
    tested(
        "certificate_of_any_identity_is_accepted",
        "a certificate belongs to the replica that presents it",
        IDENTITY_TEST,
        AUTHENTICATION,
        "if identity in identities:",
        "if identities:",
    ),
    tested(
        "certificate_of_a_dialling_replica_is_not_checked",
        "a replica that connects presents its own certificate",
        PEER_CERTIFICATE_TEST,
        PEERS,
        "problem = refusal = self._check_certificate(hello) or",
        "problem = refusal =",
    ),
    tested(
        "malformed_message_of_a_client_is_not_handled",
        "a replica survives malformed messages of clients",
        FUZZED_CONNECTION_TESTS,
        CLIENT_CONNECTION,
        "except MalformedMessage as error:",
        "except FileNotFoundError as error:",
    ),
    tested(
        "call_request_changes_its_tag",
        "the encoding of a message never changes",
        FORMAT_TESTS,
        MESSAGES,
        "class CallRequest(msgspec.Struct, frozen=True, array_like=True, tag=11):",
        "class CallRequest(msgspec.Struct, frozen=True, array_like=True, tag=16):",
    ),
    # --- failed disks, snapshots and restores -----------------------------------------------------
    tested(
        "replica_with_a_failed_disk_receives_messages",
        "a replica whose disk has failed receives no messages",
        DRIVER_TESTS,
        DRIVER,
        "if self._journal.fault is None and not self._is_halted:\n"
        "            self._step(self.replica.receive",
        "if not self._is_halted:\n            self._step(self.replica.receive",
    ),
    tested(
        "replica_with_a_failed_disk_measures_time",
        "a replica whose disk has failed does not suspect others",
        DRIVER_TESTS,
        DRIVER,
        "if self._journal.fault is None and not self._is_halted:\n"
        "            self._step(self.replica.tick",
        "if not self._is_halted:\n            self._step(self.replica.tick",
    ),
    tested(
        "snapshot_discards_the_state_of_a_checkpoint",
        "a checkpoint in progress continues after a snapshot is installed",
        REGISTER_TABLE_TESTS,
        REGISTER_TABLE,
        "if all(each.is_closed for each in self._cursors):",
        "if True:",
    ),
    tested(
        "checkpoint_continues_in_an_installed_snapshot",
        "a checkpoint in progress holds one state",
        REGISTER_TABLE_TESTS,
        REGISTER_TABLE,
        "            loader.adopt_replaced({}, [], sorted_keys)\n        self._cursors = []",
        "            loader.adopt_replaced({}, [], sorted_keys)",
    ),
    tested(
        "deleted_initial_register_returns",
        "a checkpoint after a snapshot contains deleted initial registers",
        REGISTER_TABLE_TESTS,
        STATE_LOADER,
        "            self.keys += deleted\n",
        "",
    ),
    tested(
        "restore_keeps_the_members_of_the_backup",
        "a restored cluster has new members",
        RESTORE_TESTS,
        RESTORE,
        "if item[0] not in (MEMBERSHIP_KEY, IDENTITY_KEY)]",
        "if item[0] != IDENTITY_KEY]",
    ),
    tested(
        "backup_checksum_is_not_compared",
        "every damaged byte of a backup is detected",
        FUZZED_DECODER_TESTS,
        BACKUP,
        "    if stored != checksum.digest():",
        "    if False:",
    ),
    # --- journal ----------------------------------------------------------------------------------
    tested(
        "segments_of_another_replica_are_read",
        "segments belong to one replica",
        SEGMENT_TESTS,
        SEGMENTS,
        "if owner and segments[-1][1].owner not in (owner, UNKNOWN_OWNER):",
        "if False:",
    ),
    tested(
        "checkpoint_has_no_owner",
        "every segment names its replica",
        SEGMENT_TESTS,
        SEGMENT_WRITER,
        "slot.position, True, salt, owner=self._owner)",
        "slot.position, True, salt)",
    ),
    tested(
        "unfinished_files_of_others_are_removed",
        "a replica removes only its own unfinished segments",
        SEGMENT_TESTS,
        SEGMENTS,
        " and _SEGMENT_NAME.fullmatch(path.stem)",
        "",
    ),
    tested(
        "flipped_bytes_of_records_are_accepted",
        "every flipped byte of a journal is detected",
        FUZZED_JOURNAL_TESTS,
        SEGMENTS,
        "or crc32(body, segment.salt) != header.checksum:",
        "or False:",
    ),
    tested(
        "damage_before_later_groups_is_cut",
        "damage before later records is refused",
        FUZZED_JOURNAL_TESTS,
        SEGMENTS,
        "if written > end and _has_later_group(data, end, segment, position):",
        "if False:",
    ),
)
