"""One replica in one process: its journal, its driver, its peers and its clients."""

import asyncio
from collections import Counter
from pathlib import Path
from traceback import format_exception
from typing import Any, Final, cast

import msgspec

from creekdb.errors import MissingOperation, StorageFault
from creekdb.execution.datatype import DataType
from creekdb.protocol.checkpoint.stream import AssembledSnapshot
from creekdb.protocol.guarantees import SchemeGuarantees
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation
from creekdb.protocol.validation import NEVER_ISSUED, UNAPPROVED_MEMBERS
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
from creekdb.server.runtime.startup import log_if_slow, protocol_settings
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
from creekdb.wire.dev_control import DevControl
from creekdb.wire.event_log import REPLICA_STOPPING, EventLog
from creekdb.wire.event_log import configure_logging as set_up_logs
from creekdb.wire.messages import (
    OLDEST_WIRE_VERSION,
    WIRE_VERSION,
    DeliveredPeerMessage,
    PeerHello,
    StateDigests,
)

STATE_CHECK_S: Final = 0.25
"""Between two looks for what its log should tell."""


class Server:
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
        """When its certificate does, in seconds since 1970; None: it has none."""
        self.task_supervisor = TaskSupervisor(self._handle_internal_error)
        self.pending_strong_calls = PendingStrongCalls(config.strong_max)
        self.relay = CallRelay(self.latencies, self.pending_strong_calls)
        self.dev_control: DevControl | None = None
        """Is it a replica of `creek up`?"""
        self.is_stopping = False
        self._liveness_responder: LivenessResponder | None = None
        self.client_port = 0
        self.failure: Exception | None = None
        """Why this replica cannot go on."""
        self.stop_requested = asyncio.Event()
        """It is time to stop: somebody says so, or there is a failure."""

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
        where = format_address(parse_address(config.clients)[0], self.client_port)
        self.event_log.info(
            "replica.started",
            f"of cluster '{config.cluster}', for clients at {where}",
            cluster=config.cluster,
            datatype=self._datatype.name,
            clients=where,
            committed=self.driver.replica.committed_length(),
            writes="io_uring" if self._file_ops.can_write_async else "thread",
        )

    async def stop(self) -> None:
        """Nothing new is begun; what is durable stays, and what is not was not answered."""
        self.is_stopping = True
        self.event_log.info(REPLICA_STOPPING, "is being stopped")
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
                self._recorder.record_end(self.driver.replica)
            elif self.driver.replica.can_shut_down():
                self._recorder.record_removal()

    def fail(self, error: Exception) -> None:
        """Take no further part. What is on disk stays there."""
        if self.failure is None:
            self.failure = error
            self.is_stopping = True
            self.driver.halt()
            self.event_log.error("replica.failed", f"stops: {error}")
            self.stop_requested.set()

    def handle_loop_exception(
        self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]
    ) -> None:
        """Whatever nobody else has heard of, told by the loop that this replica has to itself."""
        if self.failure is not None and context.get("exception") is self.failure:
            return  # a turn that ended because of it
        if is_internal_error(context):
            self._handle_internal_error(context["exception"])
        else:
            loop.default_exception_handler(context)

    def reload(self, config: ServerConfig) -> None:
        """Take over what can change while it runs: tokens, certificates, and what is logged. Or
        raise `UsageError`, and then all stays as it was."""
        self.certificate_expires_s = reload_certificates(
            self.config, config, self.listeners.tls_contexts
        )
        waiting = restart_keys(self.config, config)
        are_others = config.members != self.config.members
        kept = {name: getattr(config, name) for name in RELOADABLE_KEYS}
        self.config = msgspec.structs.replace(self.config, **kept)
        self.dispatcher.replace_tokens(AccessTokens(config.security))
        set_up_logs(config.log, config.log_level)
        self.event_log.info(
            "configuration.reloaded", "tokens, certificates and logging are taken over"
        )
        if waiting:
            what = f"takes effect when the replica is started again: {', '.join(waiting)}"
            self.event_log.warning("configuration.waits", what)
        if are_others:
            what = "members stay as they are: 'creek member' changes them, and no file has to"
            self.event_log.warning("configuration.waits", what)

    def status(self) -> dict[str, Any]:
        return replica_status(self)

    def set_observer(self, onlooker: CallObserver | None) -> None:
        """From now on it is told what happens to calls; None: nobody is."""
        self.relay.observer = onlooker
        self.driver.task_observer = None if onlooker is None else onlooker.on_tasks

    def apply_dev_control(self, trial: DevControl) -> None:
        """What `creek up` says."""
        self.dev_control = trial
        self.peers.disconnect(trial.cut)

    def rejections_by_reason(self) -> dict[str, int]:
        """What was refused or dropped, by the replica or at its doors."""
        return dict(sorted((self.rejections + Counter(self.driver.replica.rejected)).items()))

    # --- what it is made of -------------------------------------------------------------------

    def _assemble(self) -> None:
        """With what its disk has."""
        config, folder = self.config, Path(self.config.data)
        owner = DataDirOwner(
            cluster=config.cluster, replica=config.replica, datatype=self._datatype.name
        )
        check_owner(folder, owner)
        joins = initialise_journal(folder)
        executor, datatype = self._build_executor(DeduplicatingDataType(self._datatype))
        replica = registry.get_scheme(config.scheme)(config.replica, self._settings, datatype)
        self._file_ops = TimedFileOps(self.fsync_latency, config.io_uring, self._log_journal)
        self.journal = Journal(
            folder,
            loop=asyncio.get_running_loop(),
            on_durable=self._event_handler.on_durable,
            on_failure=self._event_handler.on_disk_failure,
            log=self._log_journal,
            calls=self._file_ops,
        )
        with log_if_slow("reads its journal", self.event_log):
            records = self.journal.open()
        record_owner(folder, owner)
        self._recorder = None
        if config.record:
            self._recorder = self._build_recorder(replica.guarantees, anew=joins or not records)
        self.peers = self._build_peers(replica)
        self.dispatcher = self.relay.dispatcher = self._build_dispatcher(replica)
        self.driver = self.relay.driver = self._build_driver(replica, executor)
        if records:
            with log_if_slow(f"takes up {len(records)} records of its journal", self.event_log):
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
            has=replica.has_request,
            alone=replica.can_respond_locally,
            refusal=self.admission.rejection,
            who_cannot=lambda name, count: self._capabilities.find_incapable(
                name, count, self.peers.connected_members
            ),
            change_members=self.membership.validate_change,
            status=self.status,
            count=self._count_rejection,
            copies=BackupSessions(self._capture_backup, self.task_supervisor.spawn),
            tokens=AccessTokens(self.config.security),
            page=self.config.page_url,
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
            broke=self._handle_internal_error,
            tentative_at_once=self.config.durability == "memory",
            recorder=self._recorder,
        )

    def _build_executor(self, datatype: DataType) -> tuple[Executor, DataType]:
        self.watchdog = Watchdog(self.config.operation_limit, self.event_log)
        self.watchdog.start()
        if self.config.execution == "inline":
            return InlineExecutor(self.watchdog, self._handle_internal_error), datatype
        gate = ReplicaLock()
        return ThreadExecutor(gate, self.watchdog, self._handle_internal_error), LockedDataType(
            datatype, gate
        )

    def _build_recorder(self, terms: SchemeGuarantees, anew: bool) -> RecordingWriter:
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
            terms=terms,
            anew=anew,
            log=self._log_recording,
        )

    # --- listening ----------------------------------------------------------------------------

    async def _listen(self) -> None:
        try:
            await self.listeners.open(
                lambda: cast(asyncio.Protocol, PeerReceiver(self.peers)),
                self.config.members[self.config.replica],
                left_over=RESERVED_FILES_BEYOND_PEERS,
            )
            clients = await self.listeners.open(
                lambda: cast(asyncio.Protocol, ClientConnection(self.dispatcher)),
                self.config.clients,
                mutual=False,
                word=CONNECTION_LIMIT_FRAME,
            )
        except BaseException:
            await self.stop()
            raise
        self.client_port = clients.sockets[0].getsockname()[1]
        self._liveness_responder = LivenessResponder(clients.sockets)
        self._liveness_responder.start()

    # --- what happens -------------------------------------------------------------------------

    def _receive(self, message: DeliveredPeerMessage | AssembledSnapshot, sender: int) -> None:
        if isinstance(message, StateDigests):
            self.divergence.receive(message, sender)
        elif self.admission.can_write():
            self.driver.receive(message, sender)
        else:
            self._count_rejection("dropped for a slow disk")

    def _handle_internal_error(self, error: Exception) -> None:
        if error is self.failure:
            return  # a task that ended because of it
        if not isinstance(error, MissingOperation):
            self.event_log.error(
                "replica.broke", repr(error), trace="".join(format_exception(error))
            )
        self.fail(error)

    async def _invoke_internal(self, operation: Operation, strong: bool) -> Any:
        """Not for a client. The first answer, or nothing if that is not known, or if it raised."""
        id = self.driver.invoke(operation, strong, 0)
        own = self.relay.internal_calls[id] = asyncio.get_running_loop().create_future()
        return await own

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

    # --- from time to time --------------------------------------------------------------------

    def _start_background_tasks(self) -> None:
        """With all that it does by itself, until it is stopped."""
        spawn = self.task_supervisor.spawn
        self.peers.start()
        spawn(self._tick())
        spawn(retry_disk(self.journal))
        if not self.config.record:  # a run has only what clients asked for
            after_s, leads = self.config.forget_after, self.admission.can_run_leader_tasks
            spawn(expire_old_calls(after_s, self.driver, leads, self._invoke_internal))
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
        beat = self.config.tick_ms / 1000
        due = last = loop.time()
        while True:
            now = loop.time()
            self.admission.record_tick(now - last)
            last = now
            self._check_for_data_loss()
            if self.admission.can_write():
                self.driver.tick()
            self.journal.request_sync()
            self.membership.refresh()
            due = max(due + beat, loop.time())
            await asyncio.sleep(due - loop.time())

    def _check_for_data_loss(self) -> None:
        """No request leaves before it is on disk: whoever tells of one that is not there tells that
        the disk has lost it. Then what was promised with it is lost as well. So it is with members,
        where one that knows of no others had let them in."""
        replica, folder = self.driver.replica, self.config.data
        if UNAPPROVED_MEMBERS in replica.rejected:
            self.fail(
                StorageFault(
                    f"there are other members, which this replica let in, and {folder} does not "
                    "hold that: what counted as safe is lost. Nothing more is promised from there: "
                    "let a new one take its place: "
                    f"'creek member replace {replica.index} HOST:PORT --data DIR'"
                )
            )
        elif NEVER_ISSUED in replica.rejected:
            self.fail(
                StorageFault(
                    f"others have requests of this replica that {folder} does not hold: what "
                    "counted as safe is lost, or an older copy took its place. Nothing more is "
                    f"promised from there: move {folder} away and start this replica as one that "
                    "lost its disk"
                )
            )

    async def _log_state_changes(self) -> None:
        watch = StateChangeLogger(self.event_log, self.config.replica)
        while True:
            await asyncio.sleep(STATE_CHECK_S)
            watch.check(
                self.driver.replica.leader(),
                self.peers.connected_members(),
                self.rejections_by_reason(),
                self.membership.configuration,
            )
