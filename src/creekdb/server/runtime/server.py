"""Server process of one replica: composition of its parts, and their start and stop."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from traceback import format_exception
from typing import Any, Final, NamedTuple, cast

import msgspec

from creekdb.errors import DuplicateReplica, MissingOperation, StorageFault
from creekdb.execution.datatype import DataType
from creekdb.execution.operation_errors import ErrorTraces
from creekdb.execution.python_runtime import build_kind
from creekdb.protocol.checkpoint.stream import AssembledSnapshot
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.messages import Record
from creekdb.schemes import registry
from creekdb.schemes.core.replica import Replica
from creekdb.server.backup.capture import capture_state, wait_until_durable
from creekdb.server.backup.sessions import BackupLimits, BackupSessions
from creekdb.server.calls.admission_control import (
    AdmissionControl,
    AdmissionLimits,
    OperationResolver,
)
from creekdb.server.calls.capabilities import Capabilities, DeduplicatingDataType
from creekdb.server.calls.dispatcher import CallDispatcher, CallLimits
from creekdb.server.changes.checkpoint_gate import run_in_thread
from creekdb.server.changes.feed import ChangeFeed, loop_ports
from creekdb.server.changes.gap_filling import GapFiller, GapPorts
from creekdb.server.changes.identity import ClusterIdentity
from creekdb.server.changes.log import ChangeLog
from creekdb.server.changes.readers import ChangeReaders, ReaderLimits
from creekdb.server.changes.snapshots import LeasedSnapshots, SnapshotLimits
from creekdb.server.changes.tables import SqlTables
from creekdb.server.changes.tentative import TentativeView
from creekdb.server.membership.changes import (
    MembershipView,
    data_loss_fault,
    initial_configuration,
    initialise_journal,
)
from creekdb.server.membership.rollback_guard import GuardPorts, RollbackGuard
from creekdb.server.observability.divergence import DivergenceDetector
from creekdb.server.observability.latency import Histogram
from creekdb.server.observability.recorder import RecordingWriter
from creekdb.server.observability.status import ReplicaSources, StateChangeLogger
from creekdb.server.runtime.config import ServerConfig, load_datatype
from creekdb.server.runtime.driver import Driver, DriverPorts
from creekdb.server.runtime.executors import Executor, InlineExecutor, ThreadExecutor, Watchdog
from creekdb.server.runtime.maintenance import (
    RELOADABLE_KEYS,
    Ticker,
    exchange_digests,
    expire_changes,
    expire_old_calls,
    fill_gaps,
    record_samples,
    restart_keys,
    retry_disk,
    warn_of_certificate_expiry,
)
from creekdb.server.runtime.replica_lock import LockedDataType, ReplicaLock
from creekdb.server.runtime.task_supervisor import TaskSupervisor, is_internal_error
from creekdb.server.security.authentication import AccessTokens, replica_identity
from creekdb.server.storage.data_dir import DataDirOwner, check_owner, record_owner
from creekdb.server.storage.direct_io import TimedFileOps
from creekdb.server.storage.journal import Journal
from creekdb.server.transport.client_connection import (
    CONNECTION_LIMIT_FRAME,
    ClientConnection,
    ClientService,
    ConnectionLimits,
    StateReaders,
)
from creekdb.server.transport.keepalive import LivenessResponder
from creekdb.server.transport.listeners import RESERVED_FILES_BEYOND_PEERS, Listeners
from creekdb.server.transport.peer_link import PeerLimits
from creekdb.server.transport.peers import PeerNetwork, PeerPorts, PeerReceiver
from creekdb.wire.addresses import format_address, parse_address
from creekdb.wire.counters import ServerCounter
from creekdb.wire.dev_control import DevControl
from creekdb.wire.event_log import EventLog, EventName, configure_logging
from creekdb.wire.messages import (
    APPLICATION_BYTES_FEATURE,
    BATCH_FEATURE,
    BUILD_PREFIX,
    CHANGES_FEATURE,
    IDENTITY_FEATURE,
    OLDEST_WIRE_VERSION,
    STAGING_FEATURE,
    WIRE_VERSION,
    DeliveredPeerMessage,
    FeedFrames,
    FeedFramesRequest,
    PeerHello,
    StateDigests,
)

CHANGES_DIRECTORY: Final = "changes"
"""Directory of the change feed in the data directory."""
STATE_CHECK_S: Final = 0.25
"""Interval between two checks for state changes to log, in seconds."""


class ServerLimits(NamedTuple):
    """Limits of all parts of a server."""

    admission: AdmissionLimits = AdmissionLimits()
    calls: CallLimits = CallLimits()
    connections: ConnectionLimits = ConnectionLimits()
    peers: PeerLimits = PeerLimits()
    backup: BackupLimits = BackupLimits()
    changes: ReaderLimits = ReaderLimits()
    snapshots: SnapshotLimits = SnapshotLimits()
    report_after_s: float = 2.0
    """Duration of a wait or an activity at the start before it is logged, and between two logs, in
    seconds."""


DEFAULT_LIMITS: Final = ServerLimits()


def _ignore() -> None:
    """Do nothing."""


class Server:
    """Live replica with all its parts, in one process.

    The constructor creates the parts and recovers the replica from its journal.
    """

    def __init__(self, config: ServerConfig, limits: ServerLimits = DEFAULT_LIMITS) -> None:
        config, configuration = initial_configuration(config)
        self.config = config
        self.limits = limits
        self.event_log = EventLog(config.replica)
        self.rejections: Counter[str] = Counter()
        self.failure: Exception | None = None
        """Error that stopped this replica."""
        self.stop_requested = asyncio.Event()
        """Set when the replica must stop, on request or after a failure."""
        self.client_port = 0
        self.dev_control: DevControl | None = None
        """Control data from `creek up`. None outside `creek up`."""
        self.on_dev_control: Callable[[], None] = _ignore
        """Called after each change of the control data."""
        self._liveness_responder: LivenessResponder | None = None
        self._logged_disk_failure = ""
        """Disk failure that was logged last. Empty while the disk works."""
        self.task_supervisor = TaskSupervisor(self._handle_internal_error)
        identity = replica_identity(config.cluster, config.replica)
        self.listeners = Listeners(config.security, identity, self._count_rejection)
        self.divergence = DivergenceDetector(config.replica, configuration.replica_ids)
        self._datatype = load_datatype(config.datatype)
        self._owner = DataDirOwner(
            cluster=config.cluster, replica=config.replica, datatype=self._datatype.name
        )
        fsync_latency = Histogram()
        self._file_ops = TimedFileOps(fsync_latency, config.io_uring, self._log_journal)
        self.journal = Journal(
            Path(config.data),
            loop=asyncio.get_running_loop(),
            on_failure=self._on_disk_failure,
            log=self._log_journal,
            file_ops=self._file_ops,
            owner=self._owner.segment_owner,
        )
        records, has_empty_disk = self._open_journal()
        watchdog = self._watchdog = Watchdog(config.operation_limit, self.event_log)
        executor, datatype = self._build_executor(watchdog)
        settings = config.protocol_settings(configuration)
        replica = registry.get_scheme(config.scheme)(config.replica, settings, datatype)
        self._recorder: RecordingWriter | None = None
        if config.record:
            self._recorder = RecordingWriter(
                config,
                self._datatype.name,
                configuration.replica_ids,
                replica.guarantees,
                has_empty_disk,
                lambda line: self.event_log.error(EventName.RECORDING_FAILED, line),
            )
        capabilities = Capabilities(
            self._datatype, require_equal_operations=config.require_equal_operations
        )
        self.tokens = tokens = AccessTokens(config.security)
        self.rollback_guard = RollbackGuard(
            config,
            replica.view,
            GuardPorts(self.fail, self._reconnect_except),
        )
        self._peer_features: dict[int, tuple[str, ...]] = {}
        self.peers = self._build_peers(replica, configuration, capabilities)
        self._has_dialled_peers = False
        """True once each member has been dialled. Before, a peer may have evidence that this
        replica lost data, so the replica receives nothing and sends nothing."""
        self.changes = self._open_changes()
        self.gap_filler = self._build_gap_filler()
        self.driver = self._build_driver(replica, executor)
        self._identity = ClusterIdentity(self.driver, config.cluster)
        self.membership = MembershipView(
            replica.view,
            self.peers,
            configuration,
            self.event_log,
            self._on_members_changed,
            self.stop_requested.set,
        )
        self.admission = AdmissionControl(
            config, self.driver, self.journal, self.membership, limits.admission
        )
        self.dispatcher = CallDispatcher(
            self.driver,
            self.journal,
            self.membership,
            self.admission,
            OperationResolver(capabilities, tokens, self.membership),
            self._count_rejection,
            limits.calls,
        )
        chunk_bytes, timeout_s = limits.backup
        capture = partial(
            capture_state, config, self._datatype.name, self.driver, self.journal, timeout_s
        )
        tables = SqlTables(self.driver, self._datatype)
        self.clients = ClientService(
            config,
            self.dispatcher,
            tokens,
            StateReaders(
                BackupSessions(capture, self.task_supervisor.spawn, chunk_bytes),
                ChangeReaders(
                    self.changes,
                    self.cluster_identity,
                    self.task_supervisor.spawn,
                    tables,
                    None if self.changes is None else TentativeView(self.driver, self.changes),
                    limits.changes,
                    self.gap_filler,
                ),
                LeasedSnapshots(
                    self.driver,
                    self.cluster_identity,
                    partial(wait_until_durable, self.journal, timeout_s),
                    self.task_supervisor.spawn,
                    tables,
                    limits.snapshots,
                ),
            ),
            self.status,
            limits.connections,
        )
        self.sources = ReplicaSources(
            config=config,
            driver=self.driver,
            journal=self.journal,
            peers=self.peers,
            membership=self.membership,
            admission=self.admission,
            dispatcher=self.dispatcher,
            clients=self.clients,
            divergence=self.divergence,
            capabilities=capabilities,
            watchdog=watchdog,
            fsync_latency=fsync_latency,
            rejections=self.rejections,
            changes=self.changes,
            certificate_expiry_s=lambda: self.listeners.certificate_expires_s,
            failure=lambda: self.failure,
            conflicts=lambda: self.rollback_guard.conflicts,
        )
        self.ticker = Ticker(config.tick_ms / 1000)
        self._recover(records)
        self.rollback_guard.open()

    # --- construction -------------------------------------------------------------------------

    def _open_journal(self) -> tuple[list[Record], bool]:
        """Return the records of the journal. The second item is True if the disk was empty."""
        data_dir, owner = Path(self.config.data), self._owner
        check_owner(data_dir, owner)
        is_joining = initialise_journal(data_dir, owner.segment_owner)
        with log_if_slow("reading the journal", self.event_log, self.limits.report_after_s):
            records = self.journal.open()
        record_owner(data_dir, owner)
        return records, is_joining or not records

    def _open_changes(self) -> ChangeFeed | None:
        """Return the change feed, or None if this replica keeps no changes."""
        config = self.config
        if not config.keeps_changes:
            return None
        log = ChangeLog(
            Path(config.data) / CHANGES_DIRECTORY,
            config.change_retention,
            self._owner.segment_owner,
        )
        with log_if_slow("reading the change feed", self.event_log, self.limits.report_after_s):
            log.open()
        ports = loop_ports(
            asyncio.get_running_loop(),
            lambda line: self.event_log.error(EventName.CHANGES_FAILED, line),
        )
        return ChangeFeed(log, ports)

    def _build_gap_filler(self) -> GapFiller | None:
        if self.changes is None:
            return None
        peers = self.peers

        def keeping_peers() -> list[int]:
            return [
                peer
                for peer in peers.connected_members()
                if CHANGES_FEATURE in self._peer_features.get(peer, ())
            ]

        def possible_sources() -> list[int]:
            own, keeping, connected = (
                self.config.replica,
                keeping_peers(),
                peers.connected_members(),
            )
            return [
                each
                for each in peers.hello.members
                if each != own and (each in keeping or each not in connected)
            ]

        ports = GapPorts(
            send=lambda peer, message: peers.send((peer,), message),
            peers=keeping_peers,
            sources=possible_sources,
            in_thread=run_in_thread,
            log=lambda line: self.event_log.error(EventName.CHANGES_FAILED, line),
        )
        return GapFiller(self.changes, ports)

    def cluster_identity(self) -> str | None:
        """Return the identity for positions in the feed. A recorded run contains only calls of
        clients, so no identity is chosen there, and the name must do."""
        return self.config.cluster if self.config.record else self._identity.read()

    def _recover(self, records: list[Record]) -> None:
        activity = f"recovering {len(records)} journal records"
        if records:
            with log_if_slow(activity, self.event_log, self.limits.report_after_s):
                self.driver.recover(records)
        self.membership.refresh()

    def _build_executor(self, watchdog: Watchdog) -> tuple[Executor, DataType]:
        datatype = DeduplicatingDataType(self._datatype, ErrorTraces(self._log_operation_error))
        if self.config.execution == "inline":
            return InlineExecutor(watchdog, self._handle_internal_error), datatype
        lock = ReplicaLock()
        executor = ThreadExecutor(lock, watchdog, self._handle_internal_error)
        return executor, LockedDataType(datatype, lock)

    def _log_operation_error(self, operation: str, error: str, trace: str) -> None:
        self.event_log.info(
            EventName.OPERATION_RAISED,
            f"{operation} raised {error}; later errors at the same line are not logged",
            operation=operation,
            trace=trace,
        )

    def _build_peers(
        self, replica: Replica, configuration: Configuration, capabilities: Capabilities
    ) -> PeerNetwork:
        config = self.config

        def on_hello(hello: PeerHello) -> None:
            self._peer_features[hello.replica] = hello.features
            capabilities.record_peer(
                hello.replica, hello.operations, hello.features, hello.code_digests
            )
            self.rollback_guard.record(hello)

        hello = PeerHello(
            WIRE_VERSION,
            config.cluster,
            config.replica,
            configuration.replica_ids,
            self._datatype.name,
            config.client_address,
            configuration.epoch,
            config.members[config.replica],
            config.page_url,
            OLDEST_WIRE_VERSION,
            capabilities.advertisement(),
            features=(
                IDENTITY_FEATURE,
                BATCH_FEATURE,
                STAGING_FEATURE,
                APPLICATION_BYTES_FEATURE,
                *([CHANGES_FEATURE] if config.keeps_changes else ()),
                f"{BUILD_PREFIX}{build_kind()}",
            ),
            code_digests=capabilities.code_digests(),
        )
        capabilities.record_features(config.replica, hello.features)
        ports = PeerPorts(
            receive=self._receive,
            new_loader=replica.view.new_state_loader,
            count_failure=self._count_rejection,
            spawn=self.task_supervisor.spawn,
            log=lambda peer, line: self.event_log.warning(EventName.PEER_REFUSED, line, peer=peer),
            on_duplicate=lambda message: self.fail(DuplicateReplica(message)),
            on_hello=on_hello,
            evidence=self.rollback_guard.evidence,
            check_evidence=self.rollback_guard.check,
        )
        ssl_context = self.listeners.client_context()
        return PeerNetwork(hello, config.peers, ports, ssl_context, self.limits.peers)

    def _build_driver(self, replica: Replica, executor: Executor) -> Driver:
        return Driver(
            replica,
            self.journal,
            executor,
            DriverPorts(
                send=self.peers.send,
                send_snapshot=self.peers.send_snapshot,
                compare=lambda digest: self.divergence.record(digest, self.journal.end_position),
                on_data_lost=lambda lost: self.fail(data_loss_fault(lost, self.config)),
                on_internal_error=self._handle_internal_error,
            ),
            respond_before_durable=self.config.durability == "memory",
            recorder=self._recorder,
            changes=self.changes,
        )

    # --- lifecycle ----------------------------------------------------------------------------

    async def start(self) -> None:
        config = self.config
        self._watchdog.start()
        if self._recorder is not None:
            self._recorder.start(self.journal.durable_position)
            self.task_supervisor.spawn(record_samples(self._recorder, self.driver, self.peers))
        if not self.membership.try_accept_calls():
            self.task_supervisor.spawn(self._unblock_when_joined())
        await self._listen()
        self._start_background_tasks()
        address = format_address(parse_address(config.clients)[0], self.client_port)
        self.event_log.info(
            EventName.REPLICA_STARTED,
            f"started in cluster '{config.cluster}', clients connect to {address}",
            cluster=config.cluster,
            datatype=self._datatype.name,
            clients=address,
            committed=self.driver.replica.view.committed_length(),
            writes="io_uring" if self._file_ops.can_write_async else "thread",
        )

    async def stop(self) -> None:
        """Stop the replica. Durable state stays on disk. Volatile state had no response."""
        if self.failure is None:
            self.admission.close("this replica is stopping")
        self.event_log.info(EventName.REPLICA_STOPPING, "stopping")
        await self.task_supervisor.stop()
        self.listeners.close()
        if self._liveness_responder is not None:
            self._liveness_responder.stop()
        self.clients.close()
        await self.peers.stop()
        self.driver.apply_effects()
        self.driver.halt()
        self._watchdog.stop()
        self.rollback_guard.close()
        self.journal.close()
        if self.changes is not None:
            self.changes.close(self.journal.durable_position)
        if self._recorder is not None:
            self._recorder.record_durable(self.journal.durable_position)
            self._recorder.record_sample(self.driver, self.peers)
            if self.membership.is_member:
                self._recorder.record_end(self.driver.replica.view)
            elif self.driver.replica.view.can_shut_down():
                self._recorder.record_removal()

    def fail(self, error: Exception) -> None:
        """Halt the replica because of an error. The data directory is kept."""
        if self.failure is None:
            self.failure = error
            self.admission.close(f"this replica has failed: {error}")
            self.driver.halt()
            self.event_log.error(EventName.REPLICA_FAILED, f"failed: {error}")
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
        self.listeners.reload_certificates(config.security)
        unapplied = restart_keys(self.config, config)
        members_differ = config.members != self.config.members
        reloaded = {name: getattr(config, name) for name in RELOADABLE_KEYS}
        self.config = msgspec.structs.replace(self.config, **reloaded)
        self.tokens.replace(config.security)
        self.clients.recheck_tokens()
        configure_logging(config.log, config.log_level)
        self.event_log.info(
            EventName.CONFIGURATION_RELOADED, "reloaded tokens, certificates and logging"
        )
        if unapplied:
            message = f"changed keys take effect after a restart: {', '.join(unapplied)}"
            self.event_log.warning(EventName.CONFIGURATION_WAITS, message)
        if members_differ:
            message = "members in the file are ignored; change members with 'creek member'"
            self.event_log.warning(EventName.CONFIGURATION_WAITS, message)

    def status(self) -> dict[str, Any]:
        return self.sources.status()

    def apply_dev_control(self, control: DevControl) -> None:
        """Apply the control data of `creek up`."""
        self.dev_control = control
        self.on_dev_control()
        self.peers.disconnect(control.cut)

    # --- listeners ----------------------------------------------------------------------------

    async def _listen(self) -> None:
        try:
            await self.listeners.open(
                lambda: cast(asyncio.Protocol, PeerReceiver(self.peers)),
                self.config.members[self.config.replica],
                reserved_files=RESERVED_FILES_BEYOND_PEERS,
            )
            clients = await self.listeners.open(
                lambda: cast(asyncio.Protocol, ClientConnection(self.clients)),
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
        elif isinstance(message, FeedFramesRequest | FeedFrames):
            if self.gap_filler is not None:
                self.gap_filler.receive(message, sender)
        elif not self._has_dialled_peers:
            self._count_rejection(ServerCounter.NOT_STARTED)
        elif self.admission.can_write():
            self.driver.receive(message, sender)
        else:
            self._count_rejection(ServerCounter.SLOW_DISK)

    def _reconnect_except(self, peer: int) -> None:
        self.peers.reconnect_except(peer)

    def _handle_internal_error(self, error: Exception) -> None:
        if error is self.failure:
            return  # a task that the failure ended
        if not isinstance(error, MissingOperation):
            self.event_log.error(
                EventName.REPLICA_BROKE, repr(error), trace="".join(format_exception(error))
            )
        self.fail(error)

    def _on_members_changed(self, configuration: Configuration) -> None:
        self.peers.reconfigure(configuration)
        self.divergence.reconfigure(configuration.replica_ids)
        self.dispatcher.recheck_dependencies()

    def _on_disk_failure(self, fault: StorageFault) -> None:
        if self.journal.is_broken:
            self.fail(fault)
        elif self._logged_disk_failure != str(fault):
            self._logged_disk_failure = str(fault)
            self.event_log.error(EventName.DISK_FAILED, self._logged_disk_failure)
            self.driver.release_reads()
            self.dispatcher.recheck_dependencies()

    def _log_journal(self, line: str) -> None:
        self.event_log.warning(EventName.JOURNAL_NOTICED, line)

    def _count_rejection(self, reason: str) -> None:
        self.rejections[reason] += 1

    # --- periodic tasks -----------------------------------------------------------------------

    def _start_background_tasks(self) -> None:
        """Start the peer links and all tasks that run until the replica stops."""
        spawn, sleep = self.task_supervisor.spawn, self.ticker.sleep
        self.peers.start()
        spawn(self.ticker.run(self._tick, self._is_idle))
        spawn(retry_disk(sleep, self.journal))
        spawn(self.rollback_guard.save_periodically())
        if not self.config.record:  # a recorded run contains only calls of clients
            retention_s, is_leader = self.config.forget_after, self.admission.can_run_leader_tasks
            spawn(
                expire_old_calls(
                    retention_s, self.driver, is_leader, self.dispatcher.invoke_internal
                )
            )
        if self.changes is not None:
            spawn(expire_changes(sleep, self.changes))
            if self.gap_filler is not None:
                spawn(fill_gaps(sleep, self.gap_filler))
            if not self.config.record:
                spawn(
                    self._identity.choose(
                        self._can_choose_identity, self.dispatcher.invoke_internal
                    )
                )
        spawn(
            exchange_digests(
                sleep,
                self.divergence,
                self.journal,
                self.peers,
                self.fail,
                self.event_log,
            )
        )
        spawn(self._log_state_changes())
        if self.config.is_secured:
            spawn(warn_of_certificate_expiry(self.sources.certificate_expiry_s, self.event_log))

    def _can_choose_identity(self) -> bool:
        """True if this replica is the leader, and all connected replicas can execute the choice."""
        return self.admission.can_run_leader_tasks() and all(
            IDENTITY_FEATURE in self._peer_features.get(peer, ())
            for peer in self.peers.connected_members()
        )

    async def _unblock_when_joined(self) -> None:
        """Admit calls once this replica has joined."""
        interval_s = self.config.tick_ms / 1000
        await self.membership.wait_until_joined(interval_s, self.limits.report_after_s)
        self.dispatcher.release_barrier()

    def _tick(self, elapsed_s: float, ticks: int) -> None:
        self.admission.record_tick(elapsed_s)
        self._has_dialled_peers = self._has_dialled_peers or self.peers.has_dialled_all()
        if self._has_dialled_peers and self.admission.can_write():
            for _ in range(ticks):
                self.driver.tick()
        self.journal.request_sync()
        self.membership.refresh()

    def _is_idle(self) -> bool:
        """True if this replica has joined, knows a leader, and has no request in progress."""
        view = self.driver.replica.view
        return (
            not view.tentative_length()
            and not self.driver.executor.pending_count()
            and not self.driver.pending_batches
            and self.membership.accepts_calls
            and view.leader() is not None
        )

    async def _log_state_changes(self) -> None:
        logger = StateChangeLogger(self.event_log, self.config.replica)
        while True:
            await self.ticker.sleep(STATE_CHECK_S)
            if self._logged_disk_failure and self.journal.fault is None:
                self._logged_disk_failure = ""
                self.event_log.info(EventName.DISK_WORKS, "the disk has recovered")
            logger.check(
                self.driver.replica.view.leader(),
                self.peers.connected_members(),
                self.sources.rejections_by_reason(),
                self.membership.configuration,
                self.sources.differing_operations(),
                self.sources.differing_builds(),
            )


@contextmanager
def log_if_slow(activity: str, events: EventLog, report_after_s: float) -> Iterator[None]:
    """Log an activity that blocks the loop for long. A thread of its own does it."""
    finished = threading.Event()

    def report() -> None:
        seconds = report_after_s
        while not finished.wait(report_after_s):
            events.info(EventName.REPLICA_BUSY, f"{activity}, for {seconds:.0f} s so far")
            seconds += report_after_s

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
