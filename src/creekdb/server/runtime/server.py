"""One replica in one process: its journal, its driver, its peers and its clients."""

import asyncio
from collections import Counter
from pathlib import Path
from traceback import format_exception
from typing import Any, Final, cast

import msgspec

from creekdb.errors import MissingOperation, StorageFault
from creekdb.execution.datatype import DataType
from creekdb.protocol.checkpoint.stream import Brought
from creekdb.protocol.guarantees import Terms
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation
from creekdb.protocol.validation import NOT_OURS, WITHOUT_US
from creekdb.schemes import registry
from creekdb.schemes.core.replica import Replica
from creekdb.server.backup.capture import take
from creekdb.server.backup.sessions import Copies, Taken
from creekdb.server.calls.admission_control import Acceptance, Undecided
from creekdb.server.calls.capabilities import Once, Repertoire
from creekdb.server.calls.dispatcher import Desk
from creekdb.server.calls.relay import Noticing, Onlooker, Traffic
from creekdb.server.membership.changes import Company, begin_journal, begun
from creekdb.server.observability.divergence import Digests
from creekdb.server.observability.latency import Histogram, Latencies
from creekdb.server.observability.recorder import Recorder
from creekdb.server.observability.status import Watch, status_of
from creekdb.server.runtime.config import ServerConfig, load_datatype
from creekdb.server.runtime.driver import Driver
from creekdb.server.runtime.executors import Executor, Inline, Threaded, Watchdog
from creekdb.server.runtime.maintenance import (
    RELOADED,
    compare_digests,
    forget_old_calls,
    mend_disk,
    reload_certificates,
    sample,
    take_sample,
    tell_of_expiry,
    waiting_keys,
)
from creekdb.server.runtime.replica_lock import Gate, Guarded
from creekdb.server.runtime.startup import settings_of, told_if_long
from creekdb.server.runtime.task_supervisor import Tasks, is_ours
from creekdb.server.security.authentication import Tokens, valid_until
from creekdb.server.storage.data_dir import Owner, refuse_foreign, sign
from creekdb.server.storage.direct_io import TimedCalls
from creekdb.server.storage.journal import Journal
from creekdb.server.transport.client_connection import CROWDED, Connection
from creekdb.server.transport.keepalive import Pulse
from creekdb.server.transport.listeners import LEFT_OVER_BY_PEERS, Doors
from creekdb.server.transport.peers import Listener, Peers
from creekdb.wire.addresses import address_of, address_text
from creekdb.wire.dev_control import Trial
from creekdb.wire.event_log import REPLICA_STOPPING, EventLog
from creekdb.wire.event_log import set_up as set_up_logs
from creekdb.wire.messages import WIRE_OLDEST, WIRE_VERSION, Heard, PeerHello, Told

WATCH_S: Final = 0.25
"""Between two looks for what its log should tell."""


class Server:
    def __init__(self, config: ServerConfig) -> None:
        config, configuration = begun(config)
        self.config = config
        self.events = EventLog(config.replica)
        self.latencies = Latencies()
        self.fsync = Histogram()
        self.refused: Counter[str] = Counter()
        self.company = Company(self, configuration)
        self.acceptance = Acceptance(self)
        self._noticing = Noticing(self)
        self._settings = settings_of(config, configuration)
        self.digests = Digests(config.replica, configuration.numbers)
        self._datatype = load_datatype(config.datatype)
        self._repertoire = Repertoire(self._datatype)
        self.doors = Doors(lambda: self.config, self._count)
        self.expires: float | None = None
        """When its certificate does, in seconds since 1970; None: it has none."""
        self.tasks = Tasks(self._broke)
        self.undecided = Undecided(config.strong_max)
        self.traffic = Traffic(self.latencies, self.undecided)
        self.trial: Trial | None = None
        """Is it a replica of `creek up`?"""
        self.is_stopping = False
        self._pulse: Pulse | None = None
        self.client_port = 0
        self.failure: Exception | None = None
        """Why this replica cannot go on."""
        self.over = asyncio.Event()
        """It is time to stop: somebody says so, or there is a failure."""

    async def start(self) -> None:
        config = self.config
        if config.is_secured:
            self.expires = valid_until(config.security)
        self._put_together()
        self.company.look()
        if self._recorder is not None:
            self._recorder.begin(self.journal.durable)
            self.tasks.spawn(sample(self._recorder, self.driver, self.peers))
        if self.company.why_closed() is not None:
            self.desk.close(Dot(config.replica, 0), self.company.why_closed)
            self.tasks.spawn(self.company.open_when_let_in())
        await self._listen()
        self._go_on()
        where = address_text(address_of(config.clients)[0], self.client_port)
        self.events.info(
            "replica.started",
            f"of cluster '{config.cluster}', for clients at {where}",
            cluster=config.cluster,
            datatype=self._datatype.name,
            clients=where,
            committed=self.driver.replica.committed_length(),
            writes="io_uring" if self._calls.begins else "thread",
        )

    async def stop(self) -> None:
        """Nothing new is begun; what is durable stays, and what is not was not answered."""
        self.is_stopping = True
        self.events.info(REPLICA_STOPPING, "is being stopped")
        await self.tasks.stop()
        self.doors.close()
        if self._pulse is not None:
            self._pulse.stop()
        for connection in tuple(self.desk.connections):
            connection.close()
        await self.peers.stop()
        self.driver.carry_out()
        self.driver.halt()
        self.watchdog.stop()
        self.journal.close()
        if self._recorder is not None:
            self._recorder.durable(self.journal.durable)
            take_sample(self._recorder, self.driver, self.peers)
            if self.company.is_member:
                self._recorder.end(self.driver.replica)
            elif self.driver.replica.is_dismissed():
                self._recorder.dismissed()

    def fail(self, error: Exception) -> None:
        """Take no further part. What is on disk stays there."""
        if self.failure is None:
            self.failure = error
            self.is_stopping = True
            self.driver.halt()
            self.events.error("replica.failed", f"stops: {error}")
            self.over.set()

    def unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Whatever nobody else has heard of, told by the loop that this replica has to itself."""
        if self.failure is not None and context.get("exception") is self.failure:
            return  # a turn that ended because of it
        if is_ours(context):
            self._broke(context["exception"])
        else:
            loop.default_exception_handler(context)

    def reload(self, config: ServerConfig) -> None:
        """Take over what can change while it runs: tokens, certificates, and what is logged. Or
        raise `UsageError`, and then all stays as it was."""
        self.expires = reload_certificates(self.config, config, self.doors.contexts)
        waiting = waiting_keys(self.config, config)
        are_others = config.members != self.config.members
        kept = {name: getattr(config, name) for name in RELOADED}
        self.config = msgspec.structs.replace(self.config, **kept)
        self.desk.change_tokens(Tokens(config.security))
        set_up_logs(config.log, config.log_level)
        self.events.info(
            "configuration.reloaded", "tokens, certificates and logging are taken over"
        )
        if waiting:
            what = f"takes effect when the replica is started again: {', '.join(waiting)}"
            self.events.warning("configuration.waits", what)
        if are_others:
            what = "members stay as they are: 'creek member' changes them, and no file has to"
            self.events.warning("configuration.waits", what)

    def status(self) -> dict[str, Any]:
        return status_of(self)

    def look_on(self, onlooker: Onlooker | None) -> None:
        """From now on it is told what happens to calls; None: nobody is."""
        self.traffic.onlooker = onlooker
        self.driver.on_tasks = None if onlooker is None else onlooker.executing

    def try_out(self, trial: Trial) -> None:
        """What `creek up` says."""
        self.trial = trial
        self.peers.cut_off(trial.cut)

    def refused_by_reason(self) -> dict[str, int]:
        """What was refused or dropped, by the replica or at its doors."""
        return dict(sorted((self.refused + Counter(self.driver.replica.refused)).items()))

    # --- what it is made of -------------------------------------------------------------------

    def _put_together(self) -> None:
        """With what its disk has."""
        config, folder = self.config, Path(self.config.data)
        owner = Owner(cluster=config.cluster, replica=config.replica, datatype=self._datatype.name)
        refuse_foreign(folder, owner)
        joins = begin_journal(folder)
        executor, datatype = self._executing(Once(self._datatype))
        replica = registry.named(config.scheme)(config.replica, self._settings, datatype)
        self._calls = TimedCalls(self.fsync, config.io_uring, self._log_journal)
        self.journal = Journal(
            folder,
            loop=asyncio.get_running_loop(),
            on_durable=self._noticing.disk_works,
            on_failure=self._noticing.disk_failed,
            log=self._log_journal,
            calls=self._calls,
        )
        with told_if_long("reads its journal", self.events):
            records = self.journal.open()
        sign(folder, owner)
        self._recorder = None
        if config.record:
            self._recorder = self._recording(replica.terms, anew=joins or not records)
        self.peers = self._peers(replica)
        self.desk = self.traffic.desk = self._desk(replica)
        self.driver = self.traffic.driver = self._driver(replica, executor)
        if records:
            with told_if_long(f"takes up {len(records)} records of its journal", self.events):
                self.driver.recover(records)

    def _peers(self, replica: Replica) -> Peers:
        config = self.config
        hello = PeerHello(
            WIRE_VERSION,
            config.cluster,
            config.replica,
            self._settings.members,
            self._datatype.name,
            config.for_clients,
            self.company.configuration.epoch,
            config.members[config.replica],
            config.for_browsers,
            WIRE_OLDEST,
            self._repertoire.told(),
        )
        return Peers(
            hello,
            config.peers,
            self._receive,
            replica.intake,
            self._count,
            self.tasks.spawn,
            self.doors.dialling(),
            self._log_peer,
            lambda hello: self._repertoire.note(hello.replica, hello.operations),
        )

    def _desk(self, replica: Replica) -> Desk:
        return Desk(
            self.config.cluster,
            self.config.replica,
            self._datatype,
            invoke=self.traffic.invoke,
            has=replica.has,
            alone=replica.answers_alone,
            refusal=self.acceptance.refusal,
            who_cannot=lambda name, count: self._repertoire.who_cannot(
                name, count, self.peers.connected
            ),
            change_members=self.company.change_asked,
            status=self.status,
            count=self._count,
            copies=Copies(self._take, self.tasks.spawn),
            tokens=Tokens(self.config.security),
            page=self.config.for_browsers,
        )

    def _driver(self, replica: Replica, executor: Executor) -> Driver:
        return Driver(
            replica,
            self.journal,
            executor,
            send=self.peers.send,
            send_snapshot=self.peers.send_snapshot,
            respond=self.traffic.respond,
            observe=self._noticing.happened,
            compare=lambda digest: self.digests.note(digest, self.journal.end),
            broke=self._broke,
            tentative_at_once=self.config.durability == "memory",
            recorder=self._recorder,
        )

    def _executing(self, datatype: DataType) -> tuple[Executor, DataType]:
        self.watchdog = Watchdog(self.config.operation_limit, self.events)
        self.watchdog.start()
        if self.config.execution == "inline":
            return Inline(self.watchdog, self._broke), datatype
        gate = Gate()
        return Threaded(gate, self.watchdog, self._broke), Guarded(datatype, gate)

    def _recording(self, terms: Terms, anew: bool) -> Recorder:
        config = self.config
        return Recorder(
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
            await self.doors.open(
                lambda: cast(asyncio.Protocol, Listener(self.peers)),
                self.config.members[self.config.replica],
                left_over=LEFT_OVER_BY_PEERS,
            )
            clients = await self.doors.open(
                lambda: cast(asyncio.Protocol, Connection(self.desk)),
                self.config.clients,
                mutual=False,
                word=CROWDED,
            )
        except BaseException:
            await self.stop()
            raise
        self.client_port = clients.sockets[0].getsockname()[1]
        self._pulse = Pulse(clients.sockets)
        self._pulse.start()

    # --- what happens -------------------------------------------------------------------------

    def _receive(self, message: Heard | Brought, sender: int) -> None:
        if isinstance(message, Told):
            self.digests.receive(message, sender)
        elif self.acceptance.disk_keeps_up():
            self.driver.receive(message, sender)
        else:
            self._count("dropped for a slow disk")

    def _broke(self, error: Exception) -> None:
        if error is self.failure:
            return  # a task that ended because of it
        if not isinstance(error, MissingOperation):
            self.events.error("replica.broke", repr(error), trace="".join(format_exception(error)))
        self.fail(error)

    async def _call(self, operation: Operation, strong: bool) -> Any:
        """Not for a client. The first answer, or nothing if that is not known, or if it raised."""
        id = self.driver.invoke(operation, strong, 0)
        own = self.traffic.own[id] = asyncio.get_running_loop().create_future()
        return await own

    async def _take(self, operations: bool) -> Taken:
        name = self._datatype.name
        return await take(self.config, name, self.driver, self.journal, operations)

    def _log_journal(self, line: str) -> None:
        self.events.warning("journal.noticed", line)

    def _log_peer(self, peer: int, line: str) -> None:
        self.events.warning("peer.refused", line, peer=peer)

    def _log_recording(self, line: str) -> None:
        self.events.error("recording.failed", line)

    def _count(self, reason: str) -> None:
        self.refused[reason] += 1

    # --- from time to time --------------------------------------------------------------------

    def _go_on(self) -> None:
        """With all that it does by itself, until it is stopped."""
        spawn = self.tasks.spawn
        self.peers.start()
        spawn(self._tick())
        spawn(mend_disk(self.journal))
        if not self.config.record:  # a run has only what clients asked for
            after_s, leads = self.config.forget_after, self.acceptance.leads
            spawn(forget_old_calls(after_s, self.driver, leads, self._call))
        spawn(compare_digests(self.digests, self.journal, self.peers, self.fail, self.events))
        spawn(self._watch())
        if self.expires is not None:
            spawn(tell_of_expiry(lambda: self.expires or 0.0, self.events))

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        beat = self.config.tick_ms / 1000
        due = last = loop.time()
        while True:
            now = loop.time()
            self.acceptance.beat(now - last)
            last = now
            self._look_for_loss()
            if self.acceptance.disk_keeps_up():
                self.driver.tick()
            self.journal.hurry()
            self.company.look()
            due = max(due + beat, loop.time())
            await asyncio.sleep(due - loop.time())

    def _look_for_loss(self) -> None:
        """No request leaves before it is on disk: whoever tells of one that is not there tells that
        the disk has lost it. Then what was promised with it is lost as well. So it is with members,
        where one that knows of no others had let them in."""
        replica, folder = self.driver.replica, self.config.data
        if WITHOUT_US in replica.refused:
            self.fail(
                StorageFault(
                    f"there are other members, which this replica let in, and {folder} does not "
                    "hold that: what counted as safe is lost. Nothing more is promised from there: "
                    "let a new one take its place: "
                    f"'creek member replace {replica.index} HOST:PORT --data DIR'"
                )
            )
        elif NOT_OURS in replica.refused:
            self.fail(
                StorageFault(
                    f"others have requests of this replica that {folder} does not hold: what "
                    "counted as safe is lost, or an older copy took its place. Nothing more is "
                    f"promised from there: move {folder} away and start this replica as one that "
                    "lost its disk"
                )
            )

    async def _watch(self) -> None:
        watch = Watch(self.events, self.config.replica)
        while True:
            await asyncio.sleep(WATCH_S)
            watch.look(
                self.driver.replica.leader(),
                self.peers.connected(),
                self.refused_by_reason(),
                self.company.configuration,
            )
