"""`creek bench`: what a live cluster can do, and what it is like to use it."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
from rich.progress import BarColumn, Progress, TextColumn

from creekdb import tpcc
from creekdb.cli.arguments import MEASUREMENT_US_MIN, DurationParam
from creekdb.cli.commands.call import REFUSED_RETRY_S, authority_option, token_option
from creekdb.cli.exit_codes import FAILURE, SUCCESS
from creekdb.cli.options import NewDirectory, Rate, warehouses_option
from creekdb.cli.output import command_name, pluralize, print_json, stderr_console, stdout_console
from creekdb.cli.views.measures import print_errors, print_latencies
from creekdb.cli.views.progress import spinner
from creekdb.client.replica_connection import client_tls_context
from creekdb.errors import UsageError
from creekdb.execution.python_runtime import build_kind
from creekdb.history import merge_recordings, save_run
from creekdb.load.connection import ReplicaUnreachable, dial
from creekdb.load.generator import LoadPlan, generate_load
from creekdb.load.local_cluster import LocalCluster
from creekdb.load.measurement import (
    STRONG_STABLE,
    WEAK_TENTATIVE,
    CpuClock,
    LoadMeter,
    LoadResult,
    load_result,
)
from creekdb.load.workload import Workload, kv_workload, tpcc_workload
from creekdb.wire.event_loop import run_in_new_loop

DEFAULT_CLIENTS = 64
COMPILE_HINT = ": it takes less when compiled ('make compiled')"


@click.group(short_help="Measure a live cluster.")
def bench() -> None:
    """Measure a live cluster: one that runs, or one that is started for it on this machine.

    With --clients, so many clients each wait for an answer before they ask again: that shows how
    much the cluster can do. With --load, so many calls are made in a second, whatever becomes of
    them: that shows how fast answers come under that load.

    \b
    Examples:
      creek bench kv                           three replicas here, 64 clients
      creek bench kv --strong 1 --clients 200
      creek bench kv --load 500 --strong 0.1 --at 127.0.0.1:7100
      creek bench tpcc --warehouses 5 --load 300 --out runs/live
      creek bench kv --at 10.0.0.2:7100 --token $TOKEN --authority authority.pem
    """


def _shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that all workloads have."""
    for option in reversed(
        (
            click.option(
                "--at",
                "addresses",
                multiple=True,
                metavar="HOST:PORT",
                help="Where clients find a replica of a cluster that runs; once for each.",
            ),
            token_option,
            authority_option,
            click.option(
                "--replicas",
                type=click.IntRange(1, 9),
                help="Without --at: start so many here.  [default: 3]",
            ),
            click.option(
                "--durability",
                type=click.Choice(["disk", "memory"]),
                default="disk",
                show_default=True,
                help="Of a cluster that is started: what a tentative answer waits for.",
            ),
            click.option(
                "--clients",
                type=click.IntRange(min=1),
                help=f"Closed loop: who wait for their answers.  [default: {DEFAULT_CLIENTS}]",
            ),
            click.option(
                "--load",
                type=Rate(),
                help="Open loop: calls in a second.",
            ),
            click.option(
                "--duration",
                type=DurationParam(MEASUREMENT_US_MIN),
                default="10s",
                show_default=True,
                help="Measured.",
            ),
            click.option(
                "--warm-up",
                type=DurationParam(),
                default="2s",
                show_default=True,
                help="Before that.",
            ),
            click.option(
                "--seed",
                type=int,
                default=0,
                show_default=True,
                help="What is drawn comes from it.",
            ),
            click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
            click.option(
                "--out",
                type=NewDirectory(),
                help="Keep the run there, recorded in full, for 'check' and the pipeline.",
            ),
        )
    ):
        command = option(command)
    return command


class _BenchOptions(NamedTuple):
    """What all workloads were asked for."""

    addresses: tuple[str, ...]
    token: str
    authority: str | None
    replicas: int | None
    durability: str
    clients: int | None
    load: float | None
    duration: int
    warm_up: int
    seed: int
    as_json: bool
    out: Path | None


@bench.command(short_help="Keys and values.")
@click.option(
    "--strong", default=0.0, show_default=True, help="The share of calls that are strong, 0 to 1."
)
@click.option("--reads", default=0.0, show_default=True, help="The share that are gets, 0 to 1.")
@click.option("--value-bytes", default=256, show_default=True, help="The size of a value.")
@click.option("--keys", default=10_000, show_default=True, help="How many there are.")
@_shared_options
def kv(strong: float, reads: float, value_bytes: int, keys: int, **shared: Any) -> int:
    """Measure puts and gets of the data type 'kv'.

    \b
    Examples:
      creek bench kv --clients 128
      creek bench kv --strong 1 --value-bytes 1024 --json
      creek bench kv --load 500 --out runs/live
    """
    asked = _BenchOptions(**shared)
    stream = kv_workload(
        keys=keys, value_bytes=value_bytes, reads=reads, strong=strong, seed=asked.seed
    )
    return _run_bench(asked, "kv", lambda replicas: stream, strong)


@bench.command("tpcc", short_help="TPC-C's transactions.")
@warehouses_option
@click.option(
    "--strong",
    type=click.FloatRange(0, 1),
    help="The share of transactions that are strong.  [default: every Payment]",
)
@_shared_options
def tpcc_command(warehouses: int, strong: float | None, **shared: Any) -> int:
    """Measure TPC-C. A cluster that runs must replicate tpcc-rows-WAREHOUSES-SEED.

    \b
    Examples:
      creek bench tpcc
      creek bench tpcc --warehouses 1 --load 200 --out runs/tpcc
    """
    asked = _BenchOptions(**shared)
    datatype = tpcc.populated_datatype_name("rows", warehouses, asked.seed)
    return _run_bench(
        asked,
        datatype,
        lambda replicas: tpcc_workload(datatype, replicas, strong, asked.seed),
        strong,
    )


def _run_bench(
    asked: _BenchOptions, datatype: str, stream: Callable[[int], Workload], strong: float | None
) -> int:
    if asked.clients and asked.load:
        raise UsageError("--clients is for a closed loop and --load for an open one: choose one")
    if asked.addresses and asked.replicas:
        raise UsageError("--at measures a cluster that runs, --replicas starts one: choose one")
    if asked.out is not None and asked.addresses:
        raise UsageError(
            "--out keeps what replicas recorded, and those that run already keep that themselves: "
            "start them with 'creek serve --record DIR', then 'creek gather DIR --out RUN'"
        )
    if asked.out is not None and asked.out.exists():
        raise UsageError(f"{asked.out} exists already, and a run is never written over")
    if asked.addresses:
        result, _ = run_in_new_loop(_measure(asked, datatype, asked.addresses, stream, {}))
    else:
        result = _measure_local_cluster(asked, datatype, stream, strong)
    if asked.as_json:
        print_json(msgspec.to_builtins(result))
    else:
        _print_result(result)
    if asked.out is not None:
        click.echo(f"kept in {asked.out}: see '{command_name()} check {asked.out}'", err=True)
    return SUCCESS if result.throughput_per_s else FAILURE


def _measure_local_cluster(
    asked: _BenchOptions, datatype: str, stream: Callable[[int], Workload], strong: float | None
) -> LoadResult:
    """Started for it, on the disk of the working folder: that for temporary files may be none."""
    folder = Path(tempfile.mkdtemp(prefix=".creek-bench-", dir=Path.cwd()))
    options = ["--durability", asked.durability]
    if asked.out is not None:
        options += ["--record", str(folder / "recorded")]
    cluster = LocalCluster(folder, replicas=asked.replicas or 3, datatype=datatype, options=options)

    async def story() -> tuple[LoadResult, LoadMeter]:
        with spinner(f"starting {pluralize(asked.replicas or 3, 'replica')}"):
            await cluster.wait_until_ready()
        told = await _measure(asked, datatype, cluster.addresses, stream, cluster.processes)
        if asked.out is not None:
            await cluster.wait_until_stable()
        return told

    try:
        cluster.start()
        try:
            result, meter = run_in_new_loop(story())
        finally:
            cluster.stop()
        if asked.out is not None:
            _save_run(asked, folder / "recorded", meter, strong)
    finally:
        with suppress(OSError):
            shutil.rmtree(folder)
    return result


def _save_run(asked: _BenchOptions, recorded: Path, meter: LoadMeter, strong: float | None) -> None:
    assert asked.out is not None
    history = merge_recordings(recorded, (meter.begin_ns // 1000, meter.end_ns // 1000))
    known = {
        "load_tps": asked.load,
        "strong_share": strong,
        "seed": asked.seed,
        "command": " ".join(["creek", *sys.argv[1:]]),
    }
    save_run(msgspec.structs.replace(history, config={**history.config, **known}), asked.out)


async def _measure(
    asked: _BenchOptions,
    datatype: str,
    addresses: Sequence[str],
    stream: Callable[[int], Workload],
    processes: dict[str, int],
) -> tuple[LoadResult, LoadMeter]:
    cpu = CpuClock(processes)
    total_s = (asked.warm_up + asked.duration) / 1e6
    bar = Progress(
        BarColumn(),
        TextColumn("{task.description}"),
        console=stderr_console(),
        transient=True,
        disable=not stderr_console().is_terminal,
    )
    task = bar.add_task("warming up", total=total_s)

    def watch(elapsed_s: float, meter: LoadMeter) -> None:
        measured_s = elapsed_s - asked.warm_up / 1e6
        told = "warming up"
        if measured_s > 0:
            told = f"{meter.completed / measured_s:,.0f}/s"
            for name, kind in (("weak", WEAK_TENTATIVE), ("strong", STRONG_STABLE)):
                recent = sorted(meter.latencies_ns[kind][-1000:])
                if recent:
                    told += f"  {name} {recent[len(recent) // 2] / 1e6:.2f} ms"
        bar.update(task, completed=elapsed_s, description=told)

    plan = LoadPlan(
        addresses,
        stream(len(addresses)),
        warm_up_s=asked.warm_up / 1e6,
        duration_s=asked.duration / 1e6,
        clients=0 if asked.load else asked.clients or DEFAULT_CLIENTS,
        load=asked.load or 0.0,
        seed=asked.seed,
        watch=watch,
        cpu=cpu,
        dial=partial(
            dial,
            token=asked.token,
            secured=client_tls_context(asked.authority),
            refused=REFUSED_RETRY_S,
            datatype=datatype,
        ),
    )
    try:
        with bar:
            meter = await generate_load(plan)
    except ReplicaUnreachable as error:
        raise UsageError(
            f"{error} (is it started there? --at names another address; without it, a cluster is "
            "started for the time)"
        ) from error
    return load_result(meter, cpu.used_s), meter


def _print_result(result: LoadResult) -> None:
    told = [
        f"{result.throughput_per_s:,.0f} calls a second",
        f"{result.weak_per_s:,.0f} weak",
        f"{result.strong_per_s:,.0f} strong",
    ]
    click.echo(", ".join(told))
    print_latencies(result)
    used = ", ".join(f"{name} {each:,.0f}" for name, each in result.cpu_us.items())
    stdout_console().print(f"CPU for a call, in µs: {sum(result.cpu_us.values()):,.0f}; of {used}")
    click.echo(f"Creek ran {build_kind()}{COMPILE_HINT if build_kind() == 'interpreted' else ''}")
    print_errors(result)
