"""Scenario generator: derives a scenario from a seed.

Each aspect of a scenario is drawn from a generator of its own, so that a new kind of fault does not
change the clusters and workloads of old seeds.

- Every fourth seed has a fault sequence (`fault_sequences`) if it has enough replicas. All other
  seeds have a random mix of faults.
- Every eighth seed, which never has a fault sequence, also changes the members, if the scheme
  supports it. In every fourth of these, a removed replica is isolated for a while.
- Every eighth seed loses disks, and no replica dies.
- Of the seeds without a fault sequence, a quarter has failing disks, a quarter responds before
  requests are durable, and a quarter learns late of durable records.

Runs are short and small on purpose. Rare interleavings come from many seeds with small limits
(windows, batches, checkpoints every few requests), not from long runs.
"""

from functools import partial
from random import Random
from typing import Literal

from msgspec.structs import replace

from creekdb import datatypes
from creekdb.protocol.guarantees import SchemeGuarantees
from creekdb.protocol.settings import Settings
from creekdb.schemes import registry
from creekdb.simulation.faults.fault_types import Crash, Die, Fault, Heal, LoseDisk, Partition
from creekdb.simulation.fuzz.fault_generator import (
    draw_disk_failures,
    draw_faults,
    draw_member_changes,
)
from creekdb.simulation.fuzz.fault_sequences import SEQUENCE_REPLICAS_MIN, draw_fault_sequence
from creekdb.simulation.kernel.scenario import ClientModel, Scenario
from creekdb.simulation.kernel.seeds import derive_generator
from creekdb.simulation.kernel.simulated_time import DAY_US
from creekdb.simulation.models.parameters import ClockModel, CpuModel, DiskModel, NetworkModel

FUZZED_DATATYPES = ("bank", "counter", "kv", "list", "register")
"""Data types to draw from. A further one would change the scenarios of all seeds."""
_QUIESCENCE_TICKS = 3_000
"""Time limit for quiescence: a leader change with increased timeouts, then a no-op."""

_OPERATIONS_MIN, _OPERATIONS_MAX = 20, 80

SEQUENCE_EVERY = 4
MEMBER_CHANGE_EVERY, MEMBER_CHANGE_OFFSET = 8, 7
ISOLATED_REMOVAL_EVERY = 4 * MEMBER_CHANGE_EVERY
DISK_LOSS_EVERY, DISK_LOSS_OFFSET = 8, 2
LAG_EVERY, LAG_OFFSET = 64, 33
DISK_FAILURE_SHARE, MEMORY_SHARE, NOTICE_SHARE = 0.25, 0.25, 0.25
ESTIMATES_SHARE, FOOTPRINTS_SHARE, LATE_CONTEXTS_SHARE, FAST_PATH_SHARE = 0.3, 0.5, 0.3, 0.3
LAG_OPERATIONS = 60
"""Number of operations at each replica."""


def scenario_from_seed(seed: int, scheme: str = "basic", faults: bool = True) -> Scenario:
    """Return the scenario of a seed. `faults=False` omits the faults and changes nothing else."""
    generator = partial(derive_generator, seed, "plan")
    replicas = generator("size").choice((1, 2, 3, 3, 3, 4, 5, 5, 6, 7))
    network = _network(generator("network"))
    tick_us = max(5_000, network.latency_us_max)
    # In ticks, so that a slow network has time for as many message exchanges as a fast one.
    load = generator("load")
    duration_us = min(2_000_000, tick_us * load.randint(100, 240))
    schedule = draw_faults(generator("faults"), replicas, duration_us)
    guarantees = _guarantees(scheme, replicas)
    if seed % DISK_LOSS_EVERY == DISK_LOSS_OFFSET and len(guarantees.voters) == replicas > 1:
        schedule += _disk_losses(generator("lost disks"), replicas, duration_us)
    else:
        schedule += _deaths(generator("deaths"), replicas, duration_us)
    if seed % MEMBER_CHANGE_EVERY == MEMBER_CHANGE_OFFSET and guarantees.contexts:
        isolate_removed = seed % ISOLATED_REMOVAL_EVERY == MEMBER_CHANGE_OFFSET
        schedule = draw_member_changes(
            generator("members"), replicas, duration_us, schedule, isolate_removed
        )
    clients = _clients(load, replicas, duration_us)
    datatype = generator("datatype").choice(FUZZED_DATATYPES)
    settings = _settings(generator("settings"))
    gossip = generator("gossip")
    if gossip.random() < 0.3:  # requests on few replicas stay rare for long enough to be lost
        settings["summary_ticks"] = gossip.choice((20, 60))
    settings |= _execution(generator("execution"))
    if generator("estimates").random() < ESTIMATES_SHARE:
        settings["estimates"] = 1
    if generator("footprints").random() < FOOTPRINTS_SHARE:
        settings["footprints"] = 1
    late_contexts = generator("late contexts")
    if late_contexts.random() < LATE_CONTEXTS_SHARE:  # schemes without contexts ignore it
        settings |= {"late_contexts": 1, "hold_us_max": late_contexts.choice((0, 1_000, 50_000))}
    if generator("fast path").random() < FAST_PATH_SHARE:
        settings["fast_path"] = 1
    if generator("drafts").random() < 0.5:  # stream checkpoints, as live replicas do
        settings["drafts"] = 1
    schedule_is_random = seed % SEQUENCE_EVERY != 0 or replicas < SEQUENCE_REPLICAS_MIN
    if not schedule_is_random:
        sequence = draw_fault_sequence(generator("play"), replicas, tick_us, duration_us)
        schedule = sequence.faults
        settings |= sequence.settings
        clients = replace(
            clients,
            strong_share=sequence.strong_share,
            think_us=clients.think_us // sequence.client_speedup,
            tentative_only_share=1.0,
        )
    cpu = _cpu(generator("cpu"))
    if seed % LAG_EVERY == LAG_OFFSET and replicas > 1:
        schedule = _lagging_replica(generator("far behind"), replicas, duration_us)
        settings |= {"pull_limit": 1}
        rate = LAG_OPERATIONS * 1_000_000 / duration_us
        clients = replace(clients, rate_per_second=rate)
        cpu = replace(cpu, execution_us=0)
    disk = _disk(generator("disk"))
    durability: Literal["disk", "memory"] = "disk"
    if schedule_is_random:
        failures = generator("failing disks")
        if failures.random() < DISK_FAILURE_SHARE:
            schedule += draw_disk_failures(failures, replicas, duration_us)
            clients = _concurrent_sessions(clients, replicas)
        memory = generator("durability")
        if memory.random() < MEMORY_SHARE:
            durability = "memory"
            disk = DiskModel(fsync_us_min=500, fsync_us_max=memory.choice((5_000, 50_000)))
        notice = generator("notice of durability")
        if notice.random() < NOTICE_SHARE:
            disk = replace(disk, notice_us_max=notice.choice((100, 1_000, tick_us)))
    return Scenario(
        seed=seed,
        scheme=scheme,
        datatype=datatype,
        replicas=replicas,
        duration_us=duration_us,
        settle_us=_QUIESCENCE_TICKS * tick_us,
        tick_us=tick_us,
        turn_us=_turn_us(generator("turns"), tick_us),
        clients=clients,
        cpu=cpu,
        network=network,
        disk=disk,
        durability=durability,
        clock=_clock(generator("clock"), replicas),
        record_orders=True,
        settings=settings,
        faults=_limit_deaths(schedule, guarantees.voters) if faults else (),
    )


def _network(random: Random) -> NetworkModel:
    latency_us_min, latency_us_max = random.choice(
        ((200, 300), (200, 300), (50, 2_000), (5_000, 10_000), (10_000, 40_000))
    )
    return NetworkModel(
        latency_us_min=latency_us_min,
        latency_us_max=latency_us_max,
        bandwidth_bps=random.choice((1_000_000_000, 1_000_000_000, 10_000_000)),
    )


def _clients(random: Random, replicas: int, duration_us: int) -> ClientModel:
    operations = random.randint(_OPERATIONS_MIN, _OPERATIONS_MAX)
    strong_share = random.choice((0.0, 0.1, 0.3, 0.3, 0.6, 1.0))
    # Clients that wait for ever reveal a lost response.
    patience_us = random.choice((duration_us // 10, duration_us // 2, duration_us * 1_000))
    if random.random() < 0.2:
        return ClientModel(
            rate_per_second=operations * 1_000_000 / duration_us / replicas,
            strong_share=strong_share,
            patience_us=patience_us,
        )
    sessions = random.randint(1, 3)
    per_session = max(1, operations // (sessions * replicas))
    return ClientModel(
        sessions=sessions,
        # In half of the seeds the load lasts for most of the run; otherwise it is an initial burst.
        think_us=duration_us // (per_session + 1) // random.choice((1, 1, 4, 20)),
        operations_per_session=per_session,
        strong_share=strong_share,
        tentative_only_share=random.choice((0.0, 0.2, 0.5)),
        patience_us=patience_us,
    )


def _concurrent_sessions(clients: ClientModel, replicas: int) -> ClientModel:
    """Return as many calls in more sessions, so that reads meet writes while a disk fails."""
    if clients.rate_per_second:
        return clients
    sessions = 3
    return replace(
        clients,
        sessions=sessions,
        operations_per_session=_OPERATIONS_MAX // (sessions * replicas),
        think_us=clients.think_us // 2,
    )


def _cpu(random: Random) -> CpuModel:
    return CpuModel(
        cores=random.choice((1, 2, 16)), execution_us=random.choice((0, 50, 50, 1_000, 10_000))
    )


def _disk(random: Random) -> DiskModel:
    fsync_us_min, fsync_us_max = random.choice(
        ((0, 0), (0, 0), (0, 50), (50, 200), (50, 200), (500, 5_000))
    )
    return DiskModel(fsync_us_min=fsync_us_min, fsync_us_max=fsync_us_max)


def _clock(random: Random, replicas: int) -> ClockModel:
    scale_us = random.choice((0, 10, 1_000, 100_000, 10_000_000))
    skews_us = [random.randint(-scale_us, scale_us) for _ in range(replicas)]
    if random.random() < 0.15:
        skews_us[random.randrange(replicas)] += DAY_US
    drift_ppm = random.choice((0, 50, 10_000))
    drifts_ppm = [random.randint(-drift_ppm, drift_ppm) for _ in range(replicas)]
    return ClockModel(skews_us=tuple(skews_us), drifts_ppm=tuple(drifts_ppm))


def _settings(random: Random) -> dict[str, int]:
    """Draw settings that differ from the defaults; each limit is small in half of the runs."""
    small = {
        "window": random.choice((1, 2, 4, 32)),
        "batch_limit": random.choice((1, 2, 8)),
        "pull_limit": random.choice((1, 3, 10)),
        "catch_up_limit": random.choice((1, 2, 5)),
        "checkpoint_every": random.randint(5, 20),
        "noop_ticks": random.choice((5, 10, 20)),
        "stuck_ticks": random.choice((16, 24)),
    }
    return {name: value for name, value in small.items() if random.random() < 0.5}


def _deaths(random: Random, replicas: int, duration_us: int) -> tuple[Fault, ...]:
    """Draw deaths of a minority, for some seeds.

    The others must continue without the requests and decisions that only the dead replicas had.
    """
    minority = (replicas - 1) // 2
    if minority == 0 or random.random() < 0.75:
        return ()
    victims = random.sample(range(replicas), random.randint(1, minority))
    return tuple(Die(random.randrange(duration_us), victim) for victim in victims)


def _disk_losses(random: Random, replicas: int, duration_us: int) -> tuple[Fault, ...]:
    """Draw disk losses of any replicas, one at a time; each recovers from all other members."""
    return tuple(
        LoseDisk(
            random.randrange(duration_us),
            random.randrange(replicas),
            int(duration_us * random.random() ** 2 / 2),
        )
        for _ in range(random.randint(1, 4))
    )


def _lagging_replica(random: Random, replicas: int, duration_us: int) -> tuple[Fault, ...]:
    """Isolate a replica under load, so that it misses more requests than one pull returns."""
    isolated = random.randrange(replicas)
    rest = tuple(each for each in range(replicas) if each != isolated)
    return (
        Partition(random.randrange(duration_us // 10), ((isolated,), rest)),
        Heal(random.randrange(duration_us // 10 * 8, duration_us // 10 * 9)),
    )


def _guarantees(scheme: str, replicas: int) -> SchemeGuarantees:
    settings = Settings(members=tuple(range(replicas)))
    return registry.get_scheme(scheme)(0, settings, datatypes.get_datatype("counter")).guarantees


def _limit_deaths(faults: tuple[Fault, ...], voters: tuple[int, ...]) -> tuple[Fault, ...]:
    """Replace deaths of voters by crashes if a majority of the voters would die.

    Without a majority no request would become stable again. The death of a primary is such a case.
    A crashed replica restarts at the end of the load phase.
    """
    dead = {fault.replica for fault in faults if isinstance(fault, Die)}
    if len(dead.intersection(voters)) * 2 < len(voters):
        return faults
    return tuple(
        Crash(fault.at_us, fault.replica)
        if isinstance(fault, Die) and fault.replica in voters
        else fault
        for fault in faults
    )


def _execution(random: Random) -> dict[str, int]:
    """Draw settings of schemes that keep versions and execute concurrently."""
    settings = {}
    if random.random() < 0.5:
        settings["kept_apart"] = random.choice((4, 8, 20))
    if random.random() < 0.3:
        settings["parallelism"] = random.choice((1, 2, 3))
    return settings


def _turn_us(random: Random, tick_us: int) -> int:
    """Draw turns as short as those of a live replica, or long enough to combine many inputs."""
    return random.choice((0, 0, 0, 50, tick_us // 5))
