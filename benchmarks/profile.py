"""Profile of a live replica: `python -m benchmarks.profile`.

Three replicas are put under load, and one of them is sampled many times a second. Each sample of a
running, not waiting, process counts for the running function and for the innermost file of Creek on
its stack.

Interpreted replicas are sampled by py-spy, which must be on the path and does not see system calls.
Compiled replicas (`make compiled`) are sampled by Linux's perf. It sees compiled
functions, system calls and the garbage collector, but not the Python functions in between.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.live_tpcc import DATATYPE
from creekdb.execution.python_runtime import build_kind
from creekdb.load.generator import LoadPlan, generate_load
from creekdb.load.local_cluster import LocalCluster
from creekdb.load.measurement import CpuClock, LoadMeter
from creekdb.load.workload import Workload, kv_workload, tpcc_workload
from creekdb.wire.event_loop import run_in_new_loop

RATE = 400
"""Samples per second."""


@click.command()
@click.option("--workload", type=click.Choice(["kv", "tpcc"]), default="kv", show_default=True)
@click.option("--strong", default=0.0, show_default=True, help="Share of strong calls.")
@click.option("--clients", default=128, show_default=True)
@click.option("--seconds", default=8.0, show_default=True)
@click.option("--replica", default=0, show_default=True, help="Number of the sampled replica.")
@click.option("--top", default=30, show_default=True)
def main(
    workload: str, strong: float, clients: int, seconds: float, replica: int, top: int
) -> None:
    """Print a profile of a replica.

    Example: python -m benchmarks.profile --strong 1
    """
    tool = "perf" if build_kind() == "compiled" else "py-spy"
    profiler = shutil.which(tool)
    if profiler is None:
        hint = "pip install py-spy" if tool == "py-spy" else "apt-get install linux-perf"
        raise click.ClickException(f"{tool} not found; install it with '{hint}'")
    with tempfile.TemporaryDirectory(prefix=".profile-", dir=Path.cwd()) as directory:
        datatype = "kv" if workload == "kv" else DATATYPE
        cluster = LocalCluster(Path(directory), replicas=3, datatype=datatype)
        stream = (
            kv_workload(keys=10_000, value_bytes=256, reads=0.0, strong=strong, seed=0)
            if workload == "kv"
            else tpcc_workload(DATATYPE, 3, None, 0)
        )
        cluster.start()
        try:
            meter, cpu, raw = run_in_new_loop(
                _profiled(profiler, cluster, stream, clients, seconds, replica, Path(directory))
            )
        finally:
            cluster.stop()
    _show(meter, cpu, raw, replica, top)


async def _profiled(
    profiler: str,
    cluster: LocalCluster,
    stream: Workload,
    clients: int,
    seconds: float,
    replica: int,
    directory: Path,
) -> tuple[LoadMeter, CpuClock, str]:
    await cluster.wait_until_ready()
    cpu = CpuClock(cluster.processes)
    out = directory / "raw"
    process_id = str(cluster.processes[f"replica {replica}"])
    command = [profiler, "record", "--pid", process_id]
    if build_kind() == "compiled":
        command += ["--freq", str(RATE), "--call-graph", "dwarf,16384", "--output", str(out)]
        command += ["--", "sleep", str(int(seconds))]
    else:
        command += ["--format", "raw", "--output", str(out), "--rate", str(RATE)]
        command += ["--nonblocking", "--gil", "--duration", str(int(seconds))]

    async def sample(_: LoadMeter) -> None:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        await process.wait()

    meter = await generate_load(
        LoadPlan(
            cluster.addresses,
            stream,
            warm_up_s=2.0,
            duration_s=seconds,
            clients=clients,
            cpu_clock=cpu,
            background=sample,
        )
    )
    return meter, cpu, _folded(profiler, out) if build_kind() == "compiled" else out.read_text()


def _folded(perf: str, recorded: Path) -> str:
    """Return the stacks of perf in the format of py-spy: from the outermost call, with counts."""
    script = [perf, "script", "--input", str(recorded), "--fields", "tid,ip,sym"]
    completed = subprocess.run(script, capture_output=True, text=True, errors="replace", check=True)
    stacks: Counter[str] = Counter()
    for sample in completed.stdout.split("\n\n"):
        symbols = [
            line.split(None, 1)[1] for line in sample.splitlines()[1:] if " " in line.strip()
        ]
        frames = [frame for each in reversed(symbols) if (frame := _frame(each)) is not None]
        stacks[";".join(frames or ["elsewhere (elsewhere:0)"])] += 1
    return "\n".join(f"{stack} {count}" for stack, count in stacks.items())


def _frame(symbol: str) -> str | None:
    """Return a frame for a compiled function, the garbage collector or a system call, else None."""
    compiled = re.match(r"CPyDef_([a-z_]+?)___(\w+)", symbol)
    if compiled is not None:
        return f"{compiled[2]} (creekdb/{compiled[1]}:0)"
    if "gc_collect_main" in symbol:
        return "collect (creekdb/garbage:0)"
    return "system call (creekdb/system:0)" if symbol.startswith("do_syscall") else None


def _show(meter: LoadMeter, cpu: CpuClock, raw: str, replica: int, top: int) -> None:
    self_counts: Counter[str] = Counter()
    total_counts: Counter[str] = Counter()
    files: Counter[str] = Counter()
    total = 0
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        names = [_short(each) for each in stack.split(";") if "(" in each]
        if not names:
            continue  # the stack changed during the sample
        total += int(count)
        self_counts[names[-1]] += int(count)
        for each in set(names):
            total_counts[each] += int(count)
        own_frames = [each for each in names if each.startswith("creekdb/")]
        files[own_frames[-1].split(" ")[0] if own_frames else "outside"] += int(count)
    console = Console()
    replica_us = cpu.used_s[f"replica {replica}"] * 1e6 / max(1, meter.completed)
    console.print(
        f"{meter.completed / meter.duration_s:,.0f} calls per second; replica {replica} "
        f"takes {replica_us:.0f} µs for each, the load generator "
        f"{cpu.used_s['the load'] * 1e6 / meter.completed:.0f}"
    )
    for title, counter in (("file", files), ("self", self_counts), ("total", total_counts)):
        table = Table(box=None, header_style="dim")
        table.add_column("share", justify="right")
        table.add_column("µs per call", justify="right")
        table.add_column(title)
        for name, samples in counter.most_common(top):
            share = samples / total
            table.add_row(f"{share:.1%}", f"{share * replica_us:.1f}", name)
        console.print(table)


def _short(frame: str) -> str:
    """Return `function (path:line)` as `path function`, without the line."""
    name, _, location = frame.partition(" (")
    path = location.rpartition(":")[0]
    relative = path.rpartition(f"creekdb{os.sep}")[2] if "creekdb" in path else path
    return f"{'creekdb/' if relative != path else ''}{relative} {name}"


if __name__ == "__main__":
    sys.exit(main(prog_name="python -m benchmarks.profile"))
