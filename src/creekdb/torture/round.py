"""One round of a torture: a new cluster, clients and faults, then convergence and all checks."""

import asyncio
import contextlib
import traceback
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol

import msgspec

from creekdb.checkers import Illegal, Inconclusive, Ok, Verdict, check_all, verdict_rows
from creekdb.checkers.blackbox import ObservedCall, ObservedRun, encode_calls
from creekdb.errors import CreekError
from creekdb.evaluation import datatype_of_history
from creekdb.history import History, merge_recordings, save_run, save_verdicts
from creekdb.http.operations import OperationCatalog
from creekdb.load.local_cluster import free_port
from creekdb.torture.checks import check_backup, check_quiescence, judge_observations
from creekdb.torture.clients import CALL_TIMEOUT_S, ClientPool, TcpSession
from creekdb.torture.faults.data_loss import DataLoss
from creekdb.torture.faults.links import LinkProxies
from creekdb.torture.faults.membership_operator import Operator
from creekdb.torture.faults.nemesis import InjectedFault, Nemesis
from creekdb.torture.faults.plan import FaultKind, PlannedFault, RoundPlan
from creekdb.torture.follower import (
    Follower,
    MakeFeedStream,
    StreamRunner,
    check_changes,
    check_stream,
)
from creekdb.torture.http_session import HttpSession, read_state
from creekdb.torture.processes import TIMEOUT_S, ReplicaProcesses, is_quiescent
from creekdb.torture.workload import Subject

TICK_MS: Final = 10
TCP_CLIENTS: Final = 4
HTTP_CLIENTS: Final = 4
RUN_DIRECTORY: Final = "run"
CALLS_FILE: Final = "calls.jsonl"
"""File in the run directory with the calls of the clients, as `creek check` reads them."""
ERRORS_FILE: Final = "errors.txt"
"""File in the directory of a round that failed, with the tracebacks of its errors."""


class RoundObserver(Protocol):
    """Observer of the progress of a round."""

    def on_stage(self, text: str) -> None: ...

    def on_fault(self, fault: InjectedFault) -> None: ...

    def on_call(self, call: ObservedCall) -> None: ...


class RoundResult(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a round. Times are in seconds from the start of the torture."""

    number: int
    replicas: int
    begin_s: float
    faults_end_s: float
    """Time at which the last fault was healed."""
    end_s: float
    faults: tuple[InjectedFault, ...]
    calls: int
    failures: tuple[str, ...]
    """Causes for which the round failed before the checkers could run."""
    verdicts: tuple[Verdict, ...]
    pictures: dict[str, str] = {}
    """Pictures of counterexamples as SVG, by checker."""

    @property
    def has_failed(self) -> bool:
        return bool(self.failures) or any(isinstance(each, Illegal) for each in self.verdicts)

    @property
    def is_inconclusive(self) -> bool:
        """True if the round has not failed, and a checker was inconclusive."""
        unknown = any(isinstance(each, Inconclusive) for each in self.verdicts)
        return unknown and not self.has_failed


def run_round(
    plan: RoundPlan,
    subject: Subject,
    directory: Path,
    now: Callable[[], float],
    observer: RoundObserver,
    make_stream: MakeFeedStream | None = None,
) -> tuple[RoundResult, list[ObservedCall]]:
    """Run and check one round. All processes have ended when it returns or raises.

    An error of any part fails the round, and the observed calls remain in the directory. With
    `make_stream`, a stream reads the change feed beside the follower.
    """
    run = _Round(plan, subject, directory, now, observer, make_stream)
    begin_s = now()
    failures: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    try:
        asyncio.run(run.run())
        observer.on_stage("checking")
        verdicts = run.check()
    except* Exception as errors:  # noqa: BLE001 - no error may lose the evidence
        leaves = _leaves(errors)
        failures = tuple(f"{type(each).__name__}: {each}" for each in leaves)
        save_evidence(directory, leaves, run.calls)
    result = RoundResult(
        number=plan.number,
        replicas=plan.replicas,
        begin_s=begin_s,
        faults_end_s=run.faults_end_s or now(),
        end_s=now(),
        faults=tuple(run.faults),
        calls=len(run.calls),
        failures=failures,
        verdicts=verdicts,
        pictures=run.pictures,
    )
    return result, run.calls


def save_evidence(
    directory: Path, errors: Iterable[BaseException], calls: Iterable[ObservedCall]
) -> None:
    """Save what a round that failed has observed, and the traceback of each error."""
    directory.mkdir(parents=True, exist_ok=True)
    texts = ("".join(traceback.format_exception(each)) for each in errors)
    (directory / ERRORS_FILE).write_text("\n".join(texts))
    (directory / CALLS_FILE).write_bytes(encode_calls(calls))


def _leaves(errors: BaseExceptionGroup[Any]) -> list[BaseException]:
    return [
        leaf
        for each in errors.exceptions
        for leaf in (_leaves(each) if isinstance(each, BaseExceptionGroup) else [each])
    ]


class _Round:
    def __init__(
        self,
        plan: RoundPlan,
        subject: Subject,
        directory: Path,
        now: Callable[[], float],
        observer: RoundObserver,
        make_stream: MakeFeedStream | None,
    ) -> None:
        self._plan = plan
        self._subject = subject
        self._directory = directory
        self._now = now
        self._observer = observer
        self._make_stream = make_stream
        self._recordings = directory / "recorded"
        self.faults: list[InjectedFault] = []
        self.calls: list[ObservedCall] = []
        self.pictures: dict[str, str] = {}
        self.faults_end_s: float | None = None
        self._final_states: dict[str, dict[Any, Any]] = {}
        self._follower: Follower | None = None
        self._stream: StreamRunner | None = None
        self._backup_verdict: Verdict = Ok("backups")

    # --- live part ------------------------------------------------------------------------------

    async def run(self) -> None:
        plan = self._plan
        (self._directory / "backups").mkdir(parents=True)
        members = [f"127.0.0.1:{free_port()}" for _ in range(plan.replicas)]
        async with AsyncExitStack() as stack:
            links = await stack.enter_async_context(LinkProxies(members))
            processes = ReplicaProcesses(
                self._directory,
                plan.replicas,
                *("--tick-ms", str(TICK_MS), "--datatype", self._subject.name),
                *("--record", str(self._recordings), "--record-orders", *plan.options),
                members=members,
                link_address=links.address,
                environment={"CREEK_CHECKPOINT_EVERY": str(plan.checkpoint_every)},
                has_http=True,
                has_control=True,
            )
            self._observer.on_stage("starting the replicas")
            stack.enter_context(processes)
            await _until_ready(processes)
            await self._torture(processes, links, stack)
            self._observer.on_stage("stopping the replicas")
            codes = {each: processes.stop(each) for each in processes.running}
            if any(codes.values()):
                raise CreekError(f"replicas exited with {codes} when they were stopped")

    async def _torture(
        self, processes: ReplicaProcesses, links: LinkProxies, stack: AsyncExitStack
    ) -> None:
        plan = self._plan
        pool = ClientPool(self._subject.source, self._now, self._observer.on_call)
        stack.push_async_callback(pool.cancel)
        self.calls = pool.calls
        clients = _Clients(plan, self._subject, processes, pool, stack)
        operator = Operator(processes, links, Random(f"members {plan.number}"), clients.on_added)
        clients.operator = operator
        await clients.start("", TCP_CLIENTS, HTTP_CLIENTS)
        nemesis = Nemesis(
            plan,
            processes,
            links,
            operator,
            self._now,
            self._observer.on_fault,
            self._directory / "backups",
        )
        self.faults = nemesis.injected
        if plan.keeps_changes:
            follower = Follower(processes, operator.locations, Random(f"follower {plan.number}"))
            stack.push_async_callback(follower.cancel)
            self._follower = follower
            follower.start()
            if self._make_stream is not None:
                self._stream = self._start_stream(self._make_stream, processes, operator)
                stack.push_async_callback(self._stream.cancel)
        self._observer.on_stage("injecting faults")
        await nemesis.run()
        self.faults_end_s = self._now()
        self._observer.on_stage("waiting for convergence")
        links.heal()
        nemesis.collect_removed()
        processes.start(*sorted(set(processes.all) - set(processes.running)))
        await clients.finish()
        await pool.stop()
        await operator.finish()
        await _until_ready(processes)
        if plan.disk_loss is not None:
            loss = DataLoss(processes, operator, self._directory / "backups", self._recordings)
            await self._lose_data(plan.disk_loss, loss, nemesis, clients)
            await operator.finish()
        await _until(processes, is_quiescent)
        for replica in processes.running:
            address = processes.location_of(replica).http_address
            assert address is not None
            self._final_states[str(replica)] = await read_state(address)
        if self._follower is not None:
            self._observer.on_stage("reading the change feeds")
            await self._follower.finish()
        if self._stream is not None:
            self._observer.on_stage("reading the rest of the stream")
            await self._stream.finish()
        if nemesis.backups:
            self._observer.on_stage("restoring a backup")
            self._backup_verdict = await check_backup(
                nemesis.backups[-1], self._subject, self._directory / "restored"
            )

    def _start_stream(
        self, make: MakeFeedStream, processes: ReplicaProcesses, operator: Operator
    ) -> StreamRunner:
        """Start a stream that may connect to all replicas, also to those that are added later."""
        locations = (*map(processes.location_of, processes.all), *operator.locations)
        servers = ",".join(each.client_address for each in locations)
        runner = StreamRunner(
            make(servers, self._directory / "stream"), Random(f"stream {self._plan.number}")
        )
        runner.start()
        return runner

    async def _lose_data(
        self, fault: PlannedFault, loss: DataLoss, nemesis: Nemesis, clients: "_Clients"
    ) -> None:
        """Lose data of a quiescent cluster, and call the replica that has recovered."""
        duration_s = min(fault.duration_s, self._plan.duration_s)
        random, begin_s = Random(fault.seed), self._now()
        if fault.kind is FaultKind.LOST_DISK:
            detail = await loss.lose_disk(random)
        else:
            copy = loss.copy_disk(random)
            await clients.run_for(duration_s, "before a rolled-back disk, ")
            detail = await loss.roll_back_disk(copy, random)
        if detail is not None:
            nemesis.record(fault.kind, detail, begin_s)
        await clients.run_for(duration_s, "after lost data, ")

    # --- checks ---------------------------------------------------------------------------------

    def check(self) -> tuple[Verdict, ...]:
        """Save the run, run every checker on it, and save the verdicts too."""
        history = merge_recordings(self._recordings)
        run_directory = self._directory / RUN_DIRECTORY
        observed = ObservedRun(
            datatype=self._subject.name,
            calls=tuple(sorted(self.calls, key=lambda each: each.invoked_us)),
            final_states=self._final_states,
        )
        save_run(history, run_directory, partial(_add_calls, observed))
        judgements = judge_observations(observed, self._subject.model)
        self.pictures = {
            verdict.checker: picture for verdict, picture in judgements if picture is not None
        }
        verdicts = (
            *check_all(history, datatype_of_history(history)),
            *(verdict for verdict, _ in judgements),
            check_quiescence(history),
            self._backup_verdict,
            *self._change_verdicts(history),
        )
        save_verdicts(run_directory, verdict_rows(verdicts))
        return verdicts

    def _change_verdicts(self, history: History) -> list[Verdict]:
        follower = self._follower
        if follower is None:
            return []
        verdicts = [check_changes(follower.changes, follower.feeds, history, self._final_states)]
        if self._stream is not None:
            verdicts.append(check_stream(self._stream.rows, follower.changes))
        return verdicts


def _add_calls(run: ObservedRun, directory: Path) -> None:
    (directory / CALLS_FILE).write_bytes(encode_calls(run.calls))


class _Clients:
    """Sessions of a round, including those at replicas that are added later."""

    def __init__(
        self,
        plan: RoundPlan,
        subject: Subject,
        processes: ReplicaProcesses,
        pool: ClientPool,
        stack: AsyncExitStack,
    ) -> None:
        self._random = Random(f"clients {plan.number}")
        self._datatype = subject.datatype
        self._catalog = OperationCatalog(subject.datatype)
        self._processes = processes
        self._stack = stack
        self._additions: list[asyncio.Task[None]] = []
        self._round = plan.number
        self._pool = pool
        self.operator: Operator | None = None

    async def start(self, prefix: str, tcp: int, http: int) -> None:
        for number in range(tcp):
            await self._start_tcp(f"{prefix}round {self._round} tcp {number}", self._draw_order())
        for number in range(http):
            name = f"{prefix}round {self._round} http {number}"
            addresses = [
                self._processes.location_of(each).http_address for each in self._draw_order()
            ]
            session = HttpSession(name, [each for each in addresses if each], self._catalog)
            self._pool.start(name, session, is_weak=number % 2 == 0)

    async def run_for(self, duration_s: float, prefix: str) -> None:
        """Run new clients, and return when the cluster is quiescent again."""
        await self.start(prefix, 2, 1)
        await asyncio.sleep(duration_s)
        await self._pool.stop()
        await _until(self._processes, is_quiescent)

    def on_added(self, replica: int) -> None:
        name = f"round {self._round} at {replica}"
        order = [replica, *(each for each in self._processes.all if each != replica)]
        self._additions.append(asyncio.create_task(self._start_tcp(name, order)))

    async def finish(self) -> None:
        """Wait until the clients of added replicas are connected."""
        await asyncio.gather(*self._additions)

    async def _start_tcp(self, name: str, replicas: list[int]) -> None:
        locations = self.operator.locations if self.operator else ()
        database = self._processes.client(
            *replicas, extra_locations=locations, timeout=CALL_TIMEOUT_S, patience=TIMEOUT_S
        )
        connected = await self._stack.enter_async_context(database)
        self._pool.start(name, TcpSession(connected, self._datatype))

    def _draw_order(self) -> list[int]:
        return self._random.sample(self._processes.all, len(self._processes.all))


async def _until(
    processes: ReplicaProcesses, condition: Callable[[list[dict[str, Any]]], bool]
) -> None:
    statuses: list[dict[str, Any]] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                processes.collect_removed()
                polled = [processes.status_unless_exited(each) for each in processes.running]
                statuses = [each for each in await asyncio.gather(*polled) if each is not None]
                if len(statuses) == len(polled) and condition(statuses):
                    return
                await asyncio.sleep(0.05)
    raise CreekError(f"the replicas did not converge within {TIMEOUT_S:g} s: {statuses}")


async def _until_ready(processes: ReplicaProcesses) -> None:
    """Wait until all running replicas have joined and are connected to each other."""
    others = len(processes.running) - 1
    await _until(
        processes,
        lambda statuses: all(
            len(each["connected"]) >= others and each["waits_for"] is None for each in statuses
        ),
    )
