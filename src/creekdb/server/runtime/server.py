"""Server process of one replica: journal, driver, peers and clients."""

import asyncio
from collections import Counter
from pathlib import Path
from traceback import format_exception
from typing import Any, Final, cast

import msgspec

from creekdb.errors import MissingOperation
from creekdb.execution.datatype import DataType
from creekdb.protocol.checkpoint.stream import AssembledSnapshot
from creekdb.protocol.guarantees import SchemeGuarantees
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation
from creekdb.schemes import registry
from creekdb.schemes.core.replica import Replica
from creekdb.server.backup.capture import capture_state
from creekdb.server.backup.sessions import BackupSessions, CapturedState
from creekdb.server.calls.admission_control import AdmissionControl, PendingStrongCalls
from creekdb.server.calls.capabilities import Capabilities, DeduplicatingDataType
from creekdb.server.calls.dispatcher import CallDispatcher
from creekdb.server.calls.relay import CallObserver, CallRelay, ReplicaEventHandler
from creekdb.server.membership.changes import (
    MembershipView,
    initial_configuration,
    initialise_journal,
)
from creekdb.server.observability.divergence import DivergenceDetector
from creekdb.server.observability.latency import CallLatencies, Histogram
from creekdb.server.observability.recorder import RecordingWriter
from creekdb.server.observability.status import StateChangeLogger, replica_status
from creekdb.server.runtime.config import ServerConfig, load_datatype
from creekdb.server.runtime.driver import Driver
from creekdb.server.runtime.executors import Executor, InlineExecutor, ThreadExecutor, Watchdog
from creekdb.server.runtime.maintenance import (
    RELOADABLE_KEYS,
    exchange_digests,
    expire_old_calls,
    record_sample,
    record_samples,
    reload_certificates,
    restart_keys,
    retry_disk,
    warn_of_certificate_expiry,
)
from creekdb.server.runtime.replica_lock import LockedDataType, ReplicaLock
from creekdb.server.runtime.startup import data_loss_fault, log_if_slow, protocol_settings
from creekdb.server.runtime.task_supervisor import TaskSupervisor, is_internal_error
from creekdb.server.security.authentication import AccessTokens, certificate_expiry_s
from creekdb.server.storage.data_dir import DataDirOwner, check_owner, record_owner
from creekdb.server.storage.direct_io import TimedFileOps
from creekdb.server.storage.journal import Journal
from creekdb.server.transport.client_connection import CONNECTION_LIMIT_FRAME, ClientConnection
from creekdb.server.transport.keepalive import LivenessResponder
from creekdb.server.transport.listeners import RESERVED_FILES_BEYOND_PEERS, Listeners
from creekdb.server.transport.peers import PeerNetwork, PeerReceiver
from creekdb.wire.addresses import format_address, parse_address
from creekdb.wire.counters import ServerCounter
from creekdb.wire.dev_control import DevControl
from creekdb.wire.event_log import REPLICA_STOPPING, EventLog, configure_logging
from creekdb.wire.messages import (
    OLDEST_WIRE_VERSION,
    WIRE_VERSION,
    DeliveredPeerMessage,
    PeerHello,
    StateDigests,
)

STATE_CHECK_S: Final = 0.25
"""Interval between two checks for state changes to log, in seconds."""


class Server:
    """Live replica with all its parts, in one process."""

    def __init__(self, config: ServerConfig) -> None:
        config, configuration = initial_configuration(config)
        self.config = config
        self.event_log = EventLog(config.replica)
        self.latencies = CallLatencies()
        self.fsync_latency = Histogram()
        self.rejections: Counter[str] = Counter()
        self.membership = MembershipView(self, configuration)
        self.admission = AdmissionControl(self)
        self._event_handler = ReplicaEventHandler(self)
        self._settings = protocol_settings(config, configuration)
        self.divergence = DivergenceDetector(config.replica, configuration.replica_ids)
        self._datatype = load_datatype(config.datatype)
        self._capabilities = Capabilities(self._datatype)
        self.listeners = Listeners(lambda: self.config, self._count_rejection)
        self.certificate_expires_s: float | None = None
        """Expiry time of the certificate, in seconds since 1970. None without a certificate."""
        self.task_supervisor = TaskSupervisor(self._handle_internal_error)
        self.pending_strong_calls = PendingStrongCalls(config.strong_max)
        self.relay = CallRelay(self.latencies, self.pending_strong_calls)
        self.dev_control: DevControl | None = None
        """Control data from `creek up`. None outside `creek up`."""
        self.is_stopping = False
        self._liveness_responder: LivenessResponder | None = None
        self.client_port = 0
        self.failure: Exception | None = None
        """Error that stopped this replica."""
        self.stop_requested = asyncio.Event()
        """Set when the replica must stop, on request or after a failure."""

    async def start(self) -> None:
        config = self.config
        if config.is_secured:
            self.certificate_expires_s = certificate_expiry_s(config.security)
        self._assemble()
        self.membership.refresh()
        if self._recorder is not None:
            self._recorder.start(self.journal.durable_position)
            self.task_supervisor.spawn(record_samples(self._recorder, self.driver, self.peers))
        if self.membership.blocked_reason() is not None:
            self.dispatcher.block_calls(Dot(config.replica, 0), self.membership.blocked_reason)
            self.task_supervisor.spawn(self.membership.unblock_when_joined())
        await self._listen()
        self._start_background_tasks()
        address = format_address(parse_address(config.clients)[0], self.client_port)
        self.event_log.info(
            "replica.started",
            f"started in cluster '{config.cluster}', clients connect to {address}",
            cluster=config.cluster,
            datatype=self._datatype.name,
            clients=address,
            committed=self.driver.replica.view.committed_length(),
            writes="io_uring" if self._file_ops.can_write_async else "thread",
        )

    async def stop(self) -> None:
        """Stop the replica. Durable state stays on disk. Volatile state had no response."""
        self.is_stopping = True
        self.event_log.info(REPLICA_STOPPING, "stopping")
        await self.task_supervisor.stop()
        self.listeners.close()
        if self._liveness_responder is not None:
            self._liveness_responder.stop()
        for connection in tuple(self.dispatcher.connections):
            connection.close()
        await self.peers.stop()
        self.driver.apply_effects()
        self.driver.halt()
        self.watchdog.stop()
        self.journal.close()
        if self._recorder is not None:
            self._recorder.record_durable(self.journal.durable_position)
            record_sample(self._recorder, self.driver, self.peers)
            if self.membership.is_member:
                self._recorder.record_end(self.driver.replica.view)
            elif self.driver.replica.view.can_shut_down():
                self._recorder.record_removal()

    def fail(self, error: Exception) -> None:
        """Halt the replica because of an error. The data directory is kept."""
        if self.failure is None:
            self.failure = error
            self.is_stopping = True
            self.driver.halt()
            self.event_log.error("replica.failed", f"failed: {error}")
            self.stop_requested.set()

    def handle_loop_exception(
        self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]
    ) -> None:
        """Handle an exception that reached the loop. The loop belongs to this replica alone."""
        if self.failure is not None and context.get("exception") is self.failure:
            return  # a callback that the failure ended
        if is_internal_error(context):
            self._handle_internal_error(context["exception"])
        else:
            loop.default_exception_handler(context)

    def reload(self, config: ServerConfig) -> None:
        """Apply the keys that can change at runtime: tokens, certificates and logging.

        On `UsageError`, nothing has changed.
        """
        self.certificate_expires_s = reload_certificates(
            self.config, config, self.listeners.tls_contexts
        )
        unapplied = restart_keys(self.config, config)
        members_differ = config.members != self.config.members
        reloaded = {name: getattr(config, name) for name in RELOADABLE_KEYS}
        self.config = msgspec.structs.replace(self.config, **reloaded)
        self.dispatcher.replace_tokens(AccessTokens(config.security))
        configure_logging(config.log, config.log_level)
        self.event_log.info("configuration.reloaded", "reloaded tokens, certificates and logging")
        if unapplied:
            message = f"changed keys take effect after a restart: {', '.join(unapplied)}"
            self.event_log.warning("configuration.waits", message)
        if members_differ:
            message = "members in the file are ignored; change members with 'creek member'"
            self.event_log.warning("configuration.waits", message)

    def status(self) -> dict[str, Any]:
        return replica_status(self)

    def set_observer(self, observer: CallObserver | None) -> None:
        """Send calls, responses and tasks to `observer` from now on. None removes the observer."""
        self.relay.observer = observer
        self.driver.task_observer = None if observer is None else observer.on_tasks

    def apply_dev_control(self, control: DevControl) -> None:
        """Apply the control data of `creek up`."""
        self.dev_control = control
        self.peers.disconnect(control.cut)

    def rejections_by_reason(self) -> dict[str, int]:
        """Return the number of rejected or dropped inputs by reason, of replica and server."""
        totals = self.rejections + Counter(self.driver.replica.view.rejected)
        return {str(reason): count for reason, count in sorted(totals.items())}

    # --- assembly -----------------------------------------------------------------------------

    def _assemble(self) -> None:
        """Create all parts, and recover the replica from its journal."""
        config, data_dir = self.config, Path(self.config.data)
        owner = DataDirOwner(
            cluster=config.cluster, replica=config.replica, datatype=self._datatype.name
        )
        check_owner(data_dir, owner)
        is_joining = initialise_journal(data_dir)
        executor, datatype = self._build_executor(DeduplicatingDataType(self._datatype))
        replica = registry.get_scheme(config.scheme)(config.replica, self._settings, datatype)
        self._file_ops = TimedFileOps(self.fsync_latency, config.io_uring, self._log_journal)
        self.journal = Journal(
            data_dir,
            loop=asyncio.get_running_loop(),
            on_durable=self._event_handler.on_durable,
            on_failure=self._event_handler.on_disk_failure,
            log=self._log_journal,
            file_ops=self._file_ops,
        )
        with log_if_slow("reading the journal", self.event_log):
            records = self.journal.open()
        record_owner(data_dir, owner)
        self._recorder = None
        if config.record:
            self._recorder = self._build_recorder(
                replica.guarantees, has_empty_disk=is_joining or not records
            )
        self.peers = self._build_peers(replica)
        self.dispatcher = self.relay.dispatcher = self._build_dispatcher(replica)
        self.driver = self.relay.driver = self._build_driver(replica, executor)
        if records:
            with log_if_slow(f"recovering {len(records)} journal records", self.event_log):
                self.driver.recover(records)

    def _build_peers(self, replica: Replica) -> PeerNetwork:
        config = self.config
        hello = PeerHello(
            WIRE_VERSION,
            config.cluster,
            config.replica,
            self._settings.members,
            self._datatype.name,
            config.client_address,
            self.membership.configuration.epoch,
            config.members[config.replica],
            config.page_url,
            OLDEST_WIRE_VERSION,
            self._capabilities.advertisement(),
        )
        return PeerNetwork(
            hello,
            config.peers,
            self._receive,
            replica.new_state_loader,
            self._count_rejection,
            self.task_supervisor.spawn,
            self.listeners.client_context(),
            self._log_peer,
            lambda hello: self._capabilities.record_peer(hello.replica, hello.operations),
        )

    def _build_dispatcher(self, replica: Replica) -> CallDispatcher:
        return CallDispatcher(
            self.config.cluster,
            self.config.replica,
            self._datatype,
            invoke=self.relay.invoke,
            has_request=replica.view.has_request,
            is_local_read=replica.can_respond_locally,
            rejection=self.admission.rejection,
            find_incapable_replica=lambda name, count: self._capabilities.find_incapable(
                name, count, self.peers.connected_members
            ),
            change_members=self.membership.validate_change,
            status=self.status,
            count=self._count_rejection,
            backup_sessions=BackupSessions(self._capture_backup, self.task_supervisor.spawn),
            tokens=AccessTokens(self.config.security),
            page_url=self.config.page_url,
        )

    def _build_driver(self, replica: Replica, executor: Executor) -> Driver:
        return Driver(
            replica,
            self.journal,
            executor,
            send=self.peers.send,
            send_snapshot=self.peers.send_snapshot,
            respond=self.relay.respond,
            observe=self._event_handler.on_events,
            compare=lambda digest: self.divergence.record(digest, self.journal.end_position),
            on_data_lost=lambda lost: self.fail(data_loss_fault(lost, self.config)),
            on_internal_error=self._handle_internal_error,
            respond_before_durable=self.config.durability == "memory",
            recorder=self._recorder,
        )

    def _build_executor(self, datatype: DataType) -> tuple[Executor, DataType]:
        self.watchdog = Watchdog(self.config.operation_limit, self.event_log)
        self.watchdog.start()
        if self.config.execution == "inline":
            return InlineExecutor(self.watchdog, self._handle_internal_error), datatype
        lock = ReplicaLock()
        return ThreadExecutor(lock, self.watchdog, self._handle_internal_error), LockedDataType(
            datatype, lock
        )

    def _build_recorder(
        self, guarantees: SchemeGuarantees, has_empty_disk: bool
    ) -> RecordingWriter:
        config = self.config
        return RecordingWriter(
            Path(config.record),
            cluster=config.cluster,
            replica=config.replica,
            members=self._settings.members,
            datatype=self._datatype.name,
            imported=config.datatype,
            scheme=config.scheme,
            durability=config.durability,
            guarantees=guarantees,
            has_empty_disk=has_empty_disk,
            log=self._log_recording,
        )

    # --- listeners ----------------------------------------------------------------------------

    async def _listen(self) -> None:
        try:
            await self.listeners.open(
                lambda: cast(asyncio.Protocol, PeerReceiver(self.peers)),
                self.config.members[self.config.replica],
                reserved_files=RESERVED_FILES_BEYOND_PEERS,
            )
            clients = await self.listeners.open(
                lambda: cast(asyncio.Protocol, ClientConnection(self.dispatcher)),
                self.config.clients,
                mutual=False,
                rejection_frame=CONNECTION_LIMIT_FRAME,
            )
        except BaseException:
            await self.stop()
            raise
        self.client_port = clients.sockets[0].getsockname()[1]
        self._liveness_responder = LivenessResponder(clients.sockets)
        self._liveness_responder.start()

    # --- inputs and callbacks -----------------------------------------------------------------

    def _receive(self, message: DeliveredPeerMessage | AssembledSnapshot, sender: int) -> None:
        if isinstance(message, StateDigests):
            self.divergence.receive(message, sender)
        elif self.admission.can_write():
            self.driver.receive(message, sender)
        else:
            self._count_rejection(ServerCounter.SLOW_DISK)

    def _handle_internal_error(self, error: Exception) -> None:
        if error is self.failure:
            return  # a task that the failure ended
        if not isinstance(error, MissingOperation):
            self.event_log.error(
                "replica.broke", repr(error), trace="".join(format_exception(error))
            )
        self.fail(error)

    async def _invoke_internal(self, operation: Operation, strong: bool) -> Any:
        """Invoke an operation without a client. Return the first response.

        The result is empty if the outcome is unknown or an exception.
        """
        id = self.driver.invoke(operation, strong, 0)
        response = self.relay.internal_calls[id] = asyncio.get_running_loop().create_future()
        return await response

    async def _capture_backup(self, operations: bool) -> CapturedState:
        name = self._datatype.name
        return await capture_state(self.config, name, self.driver, self.journal, operations)

    def _log_journal(self, line: str) -> None:
        self.event_log.warning("journal.noticed", line)

    def _log_peer(self, peer: int, line: str) -> None:
        self.event_log.warning("peer.refused", line, peer=peer)

    def _log_recording(self, line: str) -> None:
        self.event_log.error("recording.failed", line)

    def _count_rejection(self, reason: str) -> None:
        self.rejections[reason] += 1

    # --- periodic tasks -----------------------------------------------------------------------

    def _start_background_tasks(self) -> None:
        """Start the peer links and all tasks that run until the replica stops."""
        spawn = self.task_supervisor.spawn
        self.peers.start()
        spawn(self._tick())
        spawn(retry_disk(self.journal))
        if not self.config.record:  # a recorded run contains only calls of clients
            retention_s, is_leader = self.config.forget_after, self.admission.can_run_leader_tasks
            spawn(expire_old_calls(retention_s, self.driver, is_leader, self._invoke_internal))
        spawn(
            exchange_digests(self.divergence, self.journal, self.peers, self.fail, self.event_log)
        )
        spawn(self._log_state_changes())
        if self.certificate_expires_s is not None:
            spawn(
                warn_of_certificate_expiry(
                    lambda: self.certificate_expires_s or 0.0, self.event_log
                )
            )

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        interval_s = self.config.tick_ms / 1000
        due_s = last_s = loop.time()
        while True:
            now_s = loop.time()
            self.admission.record_tick(now_s - last_s)
            last_s = now_s
            if self.admission.can_write():
                self.driver.tick()
            self.journal.request_sync()
            self.membership.refresh()
            due_s = max(due_s + interval_s, loop.time())
            await asyncio.sleep(due_s - loop.time())

    async def _log_state_changes(self) -> None:
        logger = StateChangeLogger(self.event_log, self.config.replica)
        while True:
            await asyncio.sleep(STATE_CHECK_S)
            logger.check(
                self.driver.replica.view.leader(),
                self.peers.connected_members(),
                self.rejections_by_reason(),
                self.membership.configuration,
            )
