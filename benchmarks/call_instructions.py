"""Instructions of a call at each replica, by function: `python -m benchmarks.call_instructions`.

The count does not depend on the load of the machine. valgrind's callgrind counts `benchmarks.call`
twice, with different numbers of repeats, and the difference belongs to the additional calls. The
replicas should be compiled (`make compiled`). The two runs take some minutes.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import click
from rich.console import Console
from rich.table import Table

from benchmarks.call import CALLS_PER_ROUND, CONNECTIONS, MEMBERS, PREPARED_REPEATS_MIN
from creekdb.execution.python_runtime import build_kind

BAR: Final = 100_000
"""Upper bound for the instructions of a weak put at each replica."""
REPEATS: Final = (1, PREPARED_REPEATS_MIN)
"""Numbers of repeats of the two runs."""
COMPILED_PREFIX: Final = "CPyDef_"
"""Prefix of the functions that mypyc compiled from Python."""

PARTS: Final = {
    "run the operation": "CPyDef_versioned___VersionedExecution___run",
    "install the result": "CPyDef_versioned___VersionedExecution___install",
    "find the tentative response": (
        "CPyDef_tentative_responses___TentativeResponses___respond_after_execution"
    ),
    "read a call and issue its request": (
        "CPyDef_client_connection___ClientConnection___data_received"
    ),
    "deliver the requests of other replicas": "CPyDef_reliable___ReliableBroadcast___on_cast",
    "validate messages": "CPyDef_validation___rejection_reason",
    "compare messages with the state": "CPyDef_validation___contradiction_reason",
    "commit": "CPyDef_creek___CreekReplica___cab_deliver",
    "stabilise the request": "CPyDef_stable_prefix___StablePrefix___advance",
    "encode and send responses": "CPyDef_driver___Driver____send_responses",
    "of these, update the digest": "CPyDef_state_loader___StateDigest___replace",
    "of these, msgspec encodes": "Encoder_encode",
    "of these, msgspec decodes": "Decoder_decode",
}
"""Functions by the parts of a call. The last three belong to other parts as well."""

_NAME: Final = re.compile(r"\((\d+)\)(?: (.*))?")


class Profile(NamedTuple):
    """Instructions by function."""

    own: Counter[str]
    """Instructions of the function itself."""
    inclusive: Counter[str]
    """Instructions including those of the called functions."""

    @property
    def total(self) -> int:
        return self.own.total()

    def minus(self, other: "Profile") -> "Profile":
        own, inclusive = Counter(self.own), Counter(self.inclusive)
        own.subtract(other.own)
        inclusive.subtract(other.inclusive)
        return Profile(own, inclusive)


def read_profile(lines: Iterable[str]) -> Profile:
    """Read the output of callgrind: the costs of each function, and of each call that it makes."""
    own: Counter[str] = Counter()
    inclusive: Counter[str] = Counter()
    names: dict[str, str] = {}
    function, is_call = "", False
    for line in lines:
        key, separator, value = line.rstrip("\n").partition("=")
        if separator and key in ("fn", "cfn"):
            match = _NAME.fullmatch(value)
            name = value if match is None else names.setdefault(match[1], match[2] or "")
            if key == "fn":
                function = name
        elif separator and key == "calls":
            is_call = True
        elif function and line[:1] in "0123456789+-*":
            cost = int(line.split()[1])
            inclusive[function] += cost
            if not is_call:
                own[function] += cost
            is_call = False
    return Profile(own, inclusive)


def measure(turns: int, strong: float) -> Profile:
    """Return the instructions of the additional calls of the longer run."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise click.ClickException("valgrind not found; install it with 'apt-get install valgrind'")
    profiles = []
    with tempfile.TemporaryDirectory() as directory:
        runs = []
        for repeats in REPEATS:
            out = Path(directory) / f"callgrind.{repeats}"
            command = [valgrind, "--tool=callgrind", f"--callgrind-out-file={out}", sys.executable]
            command += ["-m", "benchmarks.call", "--turns", str(turns), "--repeats", str(repeats)]
            run = subprocess.Popen(
                [*command, "--strong", str(strong)],
                env={**os.environ, "PYTHONHASHSEED": "0"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            runs.append((run, out))
        for run, out in runs:  # in parallel
            _, errors = run.communicate()
            if run.returncode:
                raise click.ClickException(f"valgrind failed: {errors[-2000:]}")
            with out.open(encoding="utf-8", errors="replace") as file:
                profiles.append(read_profile(file))
    return profiles[1].minus(profiles[0])


def table(title: str, counts: Counter[str], calls: int, top: int) -> Table:
    rich_table = Table(box=None, header_style="dim")
    rich_table.add_column("instructions", justify="right")
    rich_table.add_column(title)
    for name, count in counts.most_common(top):
        rich_table.add_row(f"{count / calls:,.0f}", name.removeprefix(COMPILED_PREFIX))
    return rich_table


@click.command()
@click.option("--turns", default=40, show_default=True, help="Rounds of 192 calls per repeat.")
@click.option("--strong", default=0.0, show_default=True, help="Share of strong calls.")
@click.option("--top", default=30, show_default=True, help="Number of functions per table.")
def main(turns: int, strong: float, top: int) -> None:
    """Print the instructions of a put at each replica, by function.

    Exits with 1 if a weak put takes more than 100,000.

    \b
    Examples:
      python -m benchmarks.call_instructions
      python -m benchmarks.call_instructions --strong 1
    """
    profile = measure(turns, strong)
    rounds = turns * (REPEATS[1] - REPEATS[0])
    calls = rounds * CALLS_PER_ROUND * CONNECTIONS * len(MEMBERS) * len(MEMBERS)
    compiled = Counter(
        {
            name: count
            for name, count in profile.inclusive.items()
            if name.startswith(COMPILED_PREFIX)
        }
    )
    parts = Counter({part: profile.inclusive[name] for part, name in PARTS.items()})
    console = Console()
    console.print(table("part of a call", parts, calls, len(parts)))
    console.print(table("compiled function, with what it calls", compiled, calls, top))
    console.print(table("function alone", profile.own, calls, top))
    count = profile.total / calls
    click.echo(f"{build_kind()}: {count:,.0f} instructions of a put at each replica")
    if not strong and count > BAR:
        raise click.ClickException(f"missed: the bar of a weak put is {BAR:,}")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.call_instructions")
