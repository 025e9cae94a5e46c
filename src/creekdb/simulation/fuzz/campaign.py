"""Fuzzing campaigns: many seeds, each with its own scenario, each run checked by every checker.

A seed fails in each of these cases:

- a checker of records returns Illegal, or Inconclusive although every event is recorded,
- a black-box checker, which reads only what clients observed, returns Illegal,
- a replica or a checker raises,
- the cluster does not quiesce,
- a repeated run differs from the first.

The result of a seed depends on the seed, the scheme and the overrides only, not on other seeds or
on the number of processes. Overrides are settings and the data type, in place of those that a seed
draws. Worker processes start from scratch, so an in-memory patch of the code works with one job
only.
"""

import signal
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from hashlib import blake2b
from multiprocessing import get_context
from typing import Final

import msgspec

from creekdb import datatypes
from creekdb.checkers import Illegal, Inconclusive, Verdict, check_all
from creekdb.checkers.blackbox.simulated_runs import judge_history
from creekdb.errors import BadValue
from creekdb.protocol.probes import Probe
from creekdb.schemes import registry
from creekdb.simulation.faults.fields import format_duration
from creekdb.simulation.fuzz.scenario_generator import scenario_from_seed
from creekdb.simulation.kernel.cluster import Simulation
from creekdb.simulation.kernel.scenario import Scenario

FUZZ_EVENTS_MAX = 2_000_000
"""Event limit, a hundred times the usual number; a run that exceeds it does not quiesce."""

REPEAT_EVERY = 50
"""One seed in this many is run twice, to check that the run is repeatable."""

_CHUNK_SEEDS = 4
_CHUNKS_AHEAD = 4
"""Chunks per worker: enough to keep it busy, few enough to stop soon."""


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of a scenario in place of those that a seed draws."""

    switches: Mapping[str, int] = {}
    """Settings by name."""
    datatype: str | None = None

    def apply(self, scenario: Scenario) -> Scenario:
        return msgspec.structs.replace(
            scenario,
            settings={**scenario.settings, **self.switches},
            datatype=self.datatype or scenario.datatype,
        )


NO_OVERRIDES: Final = Overrides()


class SeedResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one seed."""

    seed: int
    scheme: str
    overrides: Overrides = NO_OVERRIDES
    summary: str
    """The scenario in one line."""
    operations: int = 0
    verdicts: tuple[Verdict, ...] = ()
    crash: str | None = None
    """Traceback of an exception in a replica or a checker, or None."""
    quiescence_failure: str | None = None
    """Reason why the run did not quiesce, or None."""
    trace_hash: str = ""
    repeated_trace_hash: str | None = None
    """Trace hash of the second run, or None."""
    probes: dict[Probe, int] = {}

    @property
    def is_quiescent(self) -> bool:
        return self.crash is None and self.quiescence_failure is None

    @property
    def is_repeatable(self) -> bool:
        return self.repeated_trace_hash in (None, self.trace_hash)

    @property
    def failed_verdicts(self) -> tuple[Illegal | Inconclusive, ...]:
        """Illegal verdicts, followed by inconclusive ones."""
        illegal = (each for each in self.verdicts if isinstance(each, Illegal))
        inconclusive = (each for each in self.verdicts if isinstance(each, Inconclusive))
        return (*illegal, *inconclusive)

    @property
    def has_failed(self) -> bool:
        return not (self.is_quiescent and self.is_repeatable) or bool(self.failed_verdicts)

    def describe(self) -> str:
        """Return the reasons of the failure, or "ok"."""
        parts = []
        if self.crash is not None:
            parts.append(f"raised\n{self.crash.rstrip()}")
        if self.quiescence_failure is not None:
            parts.append(f"did not quiesce: {self.quiescence_failure}")
        if not self.is_repeatable:
            parts.append(f"not repeatable: {self.trace_hash}, then {self.repeated_trace_hash}")
        parts += [each.describe() for each in self.failed_verdicts]
        return "\n".join(parts) or "ok"


def overridden_scenario(seed: int, scheme: str, overrides: Overrides) -> Scenario:
    """Return the scenario of a seed with the overrides applied."""
    return overrides.apply(scenario_from_seed(seed, scheme))


def build_fuzz_simulation(scenario: Scenario) -> Simulation:
    """Build the simulation of a scenario with its scheme and data type."""
    scheme = registry.get_scheme(scenario.scheme)
    datatype = datatypes.get_datatype(scenario.datatype)
    settings = scenario.protocol_settings()
    return Simulation(
        scenario,
        lambda index: scheme(index, settings, datatype),
        datatypes.SAMPLERS[scenario.datatype],
    )


def run_seed(
    seed: int,
    scheme: str = "basic",
    twice: bool = False,
    events_max: int = FUZZ_EVENTS_MAX,
    overrides: Overrides = NO_OVERRIDES,
) -> SeedResult:
    """Run the scenario of a seed and every checker; with `twice`, repeat the run and compare."""
    registry.get_scheme(scheme)
    scenario = overridden_scenario(seed, scheme, overrides)
    summary = summarize_scenario(scenario)
    try:
        run = build_fuzz_simulation(scenario).run(events_max)
        verdicts = (*check_all(run.history), *judge_history(run.history))
        repeated_hash = (
            build_fuzz_simulation(scenario).run(events_max).trace_hash if twice else None
        )
    except Exception:  # noqa: BLE001 - any exception of a replica is a finding
        return SeedResult(
            seed=seed,
            scheme=scheme,
            overrides=overrides,
            summary=summary,
            crash=traceback.format_exc(),
        )
    return SeedResult(
        seed=seed,
        scheme=scheme,
        overrides=overrides,
        summary=summary,
        operations=len(run.history.operations),
        verdicts=verdicts,
        quiescence_failure=run.quiescence_failure,
        trace_hash=run.trace_hash,
        repeated_trace_hash=repeated_hash,
        probes=run.probes,
    )


def summarize_scenario(scenario: Scenario) -> str:
    clients = scenario.clients
    load = f"{clients.rate_per_second:.0f}/s" if clients.rate_per_second else "closed loop"
    return (
        f"{scenario.replicas} replicas of {scenario.datatype}, {len(scenario.faults)} faults in "
        f"{format_duration(scenario.duration_us)}, {load}, {clients.strong_share:.0%} strong"
    )


# --- many seeds -------------------------------------------------------------------------------


class CampaignSummary:
    """Aggregated results of a campaign."""

    def __init__(self, scheme: str) -> None:
        self.seeds = 0
        self.failures: list[SeedResult] = []
        self.operations = 0
        self.repeated_seeds = 0
        self.probes: dict[Probe, int] = dict.fromkeys(registry.reachable_probes(scheme), 0)
        self._hash = blake2b(digest_size=16)

    def add(self, result: SeedResult) -> None:
        self.seeds += 1
        self.operations += result.operations
        self.repeated_seeds += result.repeated_trace_hash is not None
        if result.has_failed:
            self.failures.append(result)
        for probe, count in result.probes.items():
            self.probes[probe] += count
        self._hash.update(f"{result.seed} {result.trace_hash}\n".encode())

    @property
    def unfired_probes(self) -> list[Probe]:
        """Reachable probes that never fired."""
        return [probe for probe, count in self.probes.items() if not count]

    @property
    def trace_hash(self) -> str:
        """Hash over the trace hashes of all seeds, in the order in which they were added."""
        return self._hash.hexdigest()


def run_campaign(
    seeds: Sequence[int],
    scheme: str = "basic",
    jobs: int = 1,
    repeat_every: int = REPEAT_EVERY,
    overrides: Overrides = NO_OVERRIDES,
) -> Iterator[SeedResult]:
    """Yield the result of each seed, in the order of `seeds`, independently of `jobs`."""
    registry.get_scheme(scheme)
    if jobs < 1:
        raise BadValue(f"jobs is {jobs}: it must be at least 1")
    if repeat_every < 1:
        raise BadValue(f"repeat_every is {repeat_every}: it must be at least 1")
    if jobs == 1 or len(seeds) <= _CHUNK_SEEDS:
        return _run_each(seeds, scheme, repeat_every, overrides)
    return _run_in_processes(seeds, scheme, jobs, repeat_every, overrides)


def _run_each(
    seeds: Sequence[int], scheme: str, repeat_every: int, overrides: Overrides
) -> Iterator[SeedResult]:
    for seed in seeds:
        yield run_seed(seed, scheme, twice=seed % repeat_every == 0, overrides=overrides)


def _run_chunk(
    seeds: Sequence[int], scheme: str, repeat_every: int, overrides: Overrides
) -> list[SeedResult]:
    return list(_run_each(seeds, scheme, repeat_every, overrides))


def _run_in_processes(
    seeds: Sequence[int], scheme: str, jobs: int, repeat_every: int, overrides: Overrides
) -> Iterator[SeedResult]:
    chunks = (seeds[at : at + _CHUNK_SEEDS] for at in range(0, len(seeds), _CHUNK_SEEDS))
    pending: deque[Future[list[SeedResult]]] = deque()
    workers = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_ignore_interrupt)
    try:
        for chunk in chunks:
            pending.append(workers.submit(_run_chunk, chunk, scheme, repeat_every, overrides))
            if len(pending) >= jobs * _CHUNKS_AHEAD:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()
    finally:
        workers.shutdown(cancel_futures=True)


def _ignore_interrupt() -> None:
    """Ignore Ctrl-C, which reaches every process; the main process shuts the workers down."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
