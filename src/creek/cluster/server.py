"""One replica in one process: its journal, its driver, its peers and its clients."""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from traceback import format_exception
from typing import Any, Final, cast

import msgspec

from creek.cluster.bounds import Undecided
from creek.cluster.calling import Once
from creek.cluster.clients import Connection
from creek.cluster.config import ServerConfig, load_datatype
from creek.cluster.copies import Copies, Taken
from creek.cluster.desk import Desk
from creek.cluster.digests import DIGEST_EVERY, Digests
from creek.cluster.doors import Doors
from creek.cluster.driver import Driver
from creek.cluster.execution import Executor, Inline, Threaded
from creek.cluster.gate import Gate, Guarded
from creek.cluster.journal import Journal
from creek.cluster.listener import Listener
from creek.cluster.logs import EventLog
from creek.cluster.logs import set_up as set_up_logs
from creek.cluster.membership import begun, change_asked
from creek.cluster.onlooker import Onlooker
from creek.cluster.peers import Peers
from creek.cluster.recorder import Recorder
from creek.cluster.reloading import RELOADED, reload_certificates, waiting_keys
from creek.cluster.security import valid_until
from creek.cluster.status import status_of
from creek.cluster.taking import take
from creek.cluster.tasks import Tasks, is_ours
from creek.cluster.timing import Histogram, Latencies, TimedCalls
from creek.cluster.tokens import Tokens
from creek.cluster.traffic import Traffic
from creek.cluster.trial import Trial
from creek.cluster.upkeep import (
    compare_digests,
    forget_old_calls,
    give_up_untold,
    is_to_be_replaced,
    mend_disk,
    sample,
    take_sample,
    tell_of_expiry,
    told_if_long,
    wait_for_others,
    what_it_waits_for,
)
from creek.cluster.watch import Watch
from creek.cluster.watchdog import Watchdog
from creek.cluster.wire import WIRE_OLDEST, WIRE_VERSION, Heard, PeerHello, Told, address_of
from creek.errors import StorageFault
from creek.execution.datatype import DataType
from creek.protocol.dots import Dot
from creek.protocol.drafts import Brought
from creek.protocol.effects import Event, Installed, RbDelivered
from creek.protocol.request import Operation
from creek.protocol.settings import Settings
from creek.protocol.terms import Terms
from creek.schemes import registry

BACKLOG_MAX: Final = 20_000
"""Tasks and batches that wait: beyond that, clients are told that it is busy."""
UNWRITTEN_MAX: Final = 256 * 1024 * 1024
"""Bytes that wait for the disk: beyond that, it is as if nothing could be heard."""
NOOP_TICKS: Final = 5
"""How long a weak request may stay unstable: what becomes stable together is handled in one turn of
the loop, so it should not be much."""
WINDOW: Final = 8
"""Instances of consensus under way at once: with fewer, each decides more, and costs as much."""
HANDED_OUT_MAX: Final = 1
"""Tasks that are handed out before the first of them is completed. They are run one by one, and
each is better chosen late: one that has to be executed before others may have come meanwhile."""
HANDED_OUT_TO_THREAD_MAX: Final = 64
"""The same, for a thread that should not wait for the loop between two of them."""
WATCH_S: Final = 0.25
"""Between two looks for what its log should tell."""


class Server:
    """`observe` sees what the replica does, for whoever writes it down."""

    def __init__(
        self, config: ServerConfig, observe: Callable[[tuple[Event, ...]], None] | None = None
    ) -> None:
        config, configuration = begun(config)
        self.config = config
        self.events = EventLog(config.replica)
        self.latencies = Latencies()
        self.fsync = Histogram()
        self.refused: Counter[str] = Counter()
        self._observer = observe
        self.configuration = configuration
        self._settings = Settings(
            members=configuration.numbers,
            checkpoint_every=config.checkpoint_every,
            record_orders=int(config.record_orders),
            digest_every=DIGEST_EVERY,
            drafts=1,
            noop_ticks=NOOP_TICKS,
            window=WINDOW,
            parallelism=HANDED_OUT_MAX
            if config.execution == "inline"
            else HANDED_OUT_TO_THREAD_MAX,
            begin_anew=int(not config.fresh),
        ).changed_to(configuration)
        self.digests = Digests(config.replica, configuration.numbers)
        self._datatype = load_datatype(config.datatype)
        self.doors = Doors(lambda: self.config, self._count)
        self.expires: float | None = None
        """When its certificate does, in seconds since 1970; None: it has none."""
        self.tasks = Tasks(self._broke)
        self.undecided = Undecided(config.strong_max)
        self.traffic = Traffic(self.latencies, self.undecided)
        self.trial: Trial | None = None
        """Is it a replica of `creek up`?"""
        self._stopping = False
        self._disk_told = ""
        self.client_port = 0
        self.failure: Exception | None = None
        """Why this replica cannot go on."""
        self.over = asyncio.Event()
        """It is time to stop: somebody says so, or there is a failure."""

    async def start(self) -> None:
        config, datatype = self.config, self._datatype
        if config.is_secured:
            self.expires = valid_until(config.security)
        executor, called = self._executing(Once(datatype))
        replica = registry.named(config.scheme)(config.replica, self._settings, called)
        self.journal = Journal(
            Path(config.data),
            loop=asyncio.get_running_loop(),
            on_durable=self._released,
            on_failure=self._disk_failed,
            log=self._log_journal,
            calls=TimedCalls(self.fsync),
        )
        with told_if_long("reads its journal", self.events):
            records = self.journal.open()
        self._recorder = None
        if config.record:
            self._recorder = self._recording(replica.terms, anew=not records)
        hello = PeerHello(
            WIRE_VERSION,
            config.cluster,
            config.replica,
            self._settings.members,
            datatype.name,
            config.for_clients,
            self.configuration.epoch,
            config.members[config.replica],
            config.for_browsers,
            WIRE_OLDEST,
        )
        self.peers = Peers(
            hello,
            config.peers,
            self._receive,
            replica.intake,
            self._count,
            self.tasks.spawn,
            self.doors.dialling(),
            self._log_peer,
        )
        self.desk = self.traffic.desk = Desk(
            config.cluster,
            config.replica,
            datatype,
            invoke=self.traffic.invoke,
            knows=replica.has,
            alone=replica.answers_alone,
            refusal=self._refusal,
            status=self.status,
            count=self._count,
            copies=Copies(self._take, self.tasks.spawn),
            tokens=Tokens(config.security),
        )
        self.driver = self.traffic.driver = Driver(
            replica,
            self.journal,
            executor,
            send=self.peers.send,
            send_snapshot=self.peers.send_snapshot,
            respond=self.traffic.respond,
            observe=self._observe,
            compare=lambda digest: self.digests.note(digest, self.journal.end),
            broke=self._broke,
            tentative_at_once=config.durability == "memory",
            recorder=self._recorder,
        )
        if records:
            with told_if_long(f"takes up {len(records)} records of its journal", self.events):
                self.driver.recover(records)
        del records
        self.desk.change_members = self._change_asked
        self._look_at_members()
        if self._recorder is not None:
            self._recorder.begin(self.journal.durable)
            self.tasks.spawn(sample(self._recorder, self.driver, self.peers))
        if replica.waits_for() is not None or not self.is_member:
            self.desk.opening = Dot(config.replica, 0)
            self.desk.why_closed = partial(what_it_waits_for, replica)
            self.tasks.spawn(self._open_when_let_in(self.desk.opening))
        await self._listen()
        self.peers.start()
        self.tasks.spawn(self._tick())
        self.tasks.spawn(mend_disk(self.journal))
        if not config.record:  # a run has only what clients asked for
            self.tasks.spawn(
                forget_old_calls(config.forget_after, self.driver, self._leads, self._call)
            )
        self.tasks.spawn(
            compare_digests(self.digests, self.journal, self.peers, self.fail, self.events)
        )
        self.tasks.spawn(self._watch())
        if self.expires is not None:
            self.tasks.spawn(tell_of_expiry(lambda: self.expires or 0.0, self.events))
        where = f"{address_of(config.clients)[0]}:{self.client_port}"
        self.events.info(
            "replica.started",
            f"of cluster '{config.cluster}', for clients at {where}",
            cluster=config.cluster,
            datatype=datatype.name,
            clients=where,
            committed=replica.committed_length(),
        )

    async def stop(self) -> None:
        """Nothing new is begun; what is durable stays, and what is not was not answered."""
        self._stopping = True
        self.events.info("replica.stopping", "is being stopped")
        await self.tasks.stop()
        self.doors.close()
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
            if self.is_member:
                self._recorder.end(self.driver.replica)

    def fail(self, error: Exception) -> None:
        """Take no further part. What is on disk stays there."""
        if self.failure is None:
            self.failure = error
            self._stopping = True
            self.driver.halt()
            self.events.error("replica.failed", f"stops: {error}")
            self.over.set()

    def unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Whatever nobody else has heard of, told by the loop that this replica has to itself."""
        if is_ours(context):
            self._broke(context["exception"])
        else:
            loop.default_exception_handler(context)

    def reload(self, config: ServerConfig) -> None:
        """Take over what can change while it runs: tokens, certificates, and what is logged. Or
        raise `UsageError`, and then all stays as it was."""
        self.expires = reload_certificates(self.config, config, self.doors.contexts)
        waiting = waiting_keys(self.config, config)
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
            )
            clients = await self.doors.open(
                lambda: cast(asyncio.Protocol, Connection(self.desk)),
                self.config.clients,
                mutual=False,
            )
        except BaseException:
            await self.stop()
            raise
        self.client_port = clients.sockets[0].getsockname()[1]

    # --- what happens -------------------------------------------------------------------------

    def _receive(self, message: Heard | Brought, sender: int) -> None:
        if isinstance(message, Told):
            self.digests.receive(message, sender)
        elif self._disk_keeps_up():
            self.driver.receive(message, sender)
        else:
            self._count("dropped for a slow disk")

    def _disk_keeps_up(self) -> bool:
        """One that hangs, and does not say so, must not fill the memory."""
        return self.journal.pending_bytes <= UNWRITTEN_MAX and self.driver.held <= BACKLOG_MAX

    def _observe(self, events: tuple[Event, ...]) -> None:
        if self._observer is not None:
            self._observer(events)
        if len(self.undecided):
            self.undecided.observe(events)
        if any(type(event) is Installed for event in events):
            asyncio.get_running_loop().call_soon(self._look_for_untold)
        if not self.desk.waiting:
            return
        # Not before the effects that these events come with are carried out: who comes after a
        # request is executed after it, and its records follow those of that request.
        loop = asyncio.get_running_loop()
        for event in events:
            if isinstance(event, RbDelivered):
                loop.call_soon(self.desk.arrived, event.id)
            elif isinstance(event, Installed):
                loop.call_soon(self.desk.arrived_all)

    def _look_for_untold(self) -> None:
        """A checkpoint brings answers that clients wait for, but not any number of them."""
        awaits = self.driver.replica.awaits
        untold = [id for id in self.desk.asked() if not awaits(id)]
        if untold:
            self.tasks.spawn(give_up_untold(untold, self.desk, self.journal))
        for id in [each for each in self.traffic.own if not awaits(each)]:
            self.traffic.own.pop(id).set_result(())

    def _released(self) -> None:
        if self._disk_told:
            self._disk_told = ""
            self.events.info("disk.works", "the disk works again")
        self.driver.release()

    def _disk_failed(self, fault: StorageFault) -> None:
        if self.journal.broken:
            self.fail(fault)
        elif self._disk_told != str(fault):
            self._disk_told = str(fault)
            self.events.error("disk.failed", self._disk_told)
            self.driver.disk_failed()
            self.desk.look_again()

    def _broke(self, error: Exception) -> None:
        if error is self.failure:
            return  # a task that ended because of it
        self.events.error("replica.broke", repr(error), trace="".join(format_exception(error)))
        self.fail(error)

    def _refusal(self, strong: bool, alone: bool) -> tuple[str, str] | None:
        if self.failure is not None:
            return "stopping", f"this replica had to stop, ask another one: {self.failure}"
        if self._stopping:
            return "stopping", "this replica is being stopped: ask another one"
        if not self.is_member and self.desk.opening is None:
            return "stopping", "this replica is no member of its cluster: ask another one"
        if self.desk.opening is not None and is_to_be_replaced(self.driver.replica):
            return "stopping", self.desk.why_too_late(self.desk.opening)
        failed = self.journal.failed
        if failed is not None and (not alone or self.driver.may_lose_what_it_issued):
            return "disk", f"this replica cannot write: {failed}"
        if not self._disk_keeps_up() and not alone:
            return "disk", "the disk of this replica does not keep up: ask another one"
        if self.driver.backlog > BACKLOG_MAX or self._keeps_waiting():
            return "busy", "this replica has more to do than it can: try again later"
        tentative = self.driver.replica.tentative_length()
        return self.undecided.refusal(strong, tentative, self._reach)

    def _keeps_waiting(self) -> bool:
        """Not for one that is stopped, or carries out one long operation: those who waited for that
        are soon gone. For more that comes than can be carried out."""
        waited_ms = self.driver.replica.kept_waiting() * self.config.tick_ms
        return waited_ms > self.config.busy_after * 1000

    def _reach(self) -> tuple[int, int]:
        return len(self.peers.connected()), len(self.configuration.members)

    def _leads(self) -> bool:
        replica = self.driver.replica
        if replica.leader() != self.config.replica or replica.waits_for() is not None:
            return False
        return self._refusal(False, False) is None

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

    def _log_peer(self, line: str) -> None:
        self.events.warning("peer.refused", line)

    def _log_recording(self, line: str) -> None:
        self.events.error("recording.failed", line)

    def _count(self, reason: str) -> None:
        self.refused[reason] += 1

    # --- from time to time --------------------------------------------------------------------

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        beat = self.config.tick_ms / 1000
        due = loop.time()
        while True:
            if self._disk_keeps_up():
                self.driver.tick()
            self.journal.hurry()
            self._look_at_members()
            due = max(due + beat, loop.time())
            await asyncio.sleep(due - loop.time())

    # --- members ------------------------------------------------------------------------------

    @property
    def is_member(self) -> bool:
        return self.config.replica in self.configuration.numbers

    def _change_asked(self, name: str, arguments: tuple[Any, ...]) -> Operation:
        reached = [self.config.replica, *self.peers.connected()]
        return change_asked(name, arguments, self.driver.replica.configuration(), reached)

    def _look_at_members(self) -> None:
        """Have they been changed, and is this replica still one of them?"""
        replica = self.driver.replica
        configuration = replica.configuration()
        if configuration.epoch != self.configuration.epoch:
            self.configuration = configuration
            self.peers.reconfigure(
                configuration.epoch,
                dict(configuration.members),
                configuration.next_number - 1,
            )
            self.digests.reconfigure(configuration.numbers)
            members = ", ".join(map(str, configuration.numbers))
            self.events.info("members.changed", f"members are {members}", members=members)
            self.desk.look_again()
        if replica.is_dismissed() and not self.over.is_set():
            self.events.warning(
                "replica.removed", "was removed from its cluster: it stops, and its folder can go"
            )
            self.over.set()

    async def _open_when_let_in(self, opening: Dot) -> None:
        await wait_for_others(self.driver.replica, self.config.tick_ms / 1000, self.events)
        while not self.is_member:
            await asyncio.sleep(self.config.tick_ms / 1000)
        self.desk.opening = None
        self.desk.arrived(opening)

    async def _watch(self) -> None:
        watch = Watch(self.events, self.config.replica)
        while True:
            await asyncio.sleep(WATCH_S)
            leader = self.driver.replica.leader()
            watch.look(leader, self.peers.connected(), self.refused_by_reason())
