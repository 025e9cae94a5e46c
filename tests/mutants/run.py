"""Mutation test of the fuzzer: `make mutants`.

    python tests/mutants/run.py [NAME ...] [--list] [--jobs N]

Each mutant is examined seed by seed until one fails. The unmodified package, the control, must
pass. The exit status is 1 if a mutant survived or the control failed. It is 2 if a name is unknown
or a mutant does not apply.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script, by its path

from tests.mutants import (
    availability,
    baselines,
    catalogue,
    disk_loss,
    membership,
    release,
    scans,
    snapshots,
    versions,
)
from tests.mutants.catalogue import Mutant
from tests.mutants.patching import EditMismatch, copy_package, patched_files

MUTANTS: tuple[Mutant, ...] = (
    *catalogue.MUTANTS,
    *snapshots.MUTANTS,
    *versions.MUTANTS,
    *scans.MUTANTS,
    *baselines.MUTANTS,
    *membership.MUTANTS,
    *disk_loss.MUTANTS,
    *availability.MUTANTS,
    *release.MUTANTS,
)
EXAMINER = Path(__file__).with_name("examiner.py")
CONTROL_SEEDS = 200
COLUMNS_WITHOUT_TERMINAL = 160


class Result(NamedTuple):
    seeds: int
    """Number of examined seeds."""
    caught_by: str | None
    """Check that failed at the last seed, or None."""
    seed: int | None
    """Last examined seed."""


def examine(mutant: Mutant | None, seeds: int, passed: Callable[[], None]) -> Result:
    """Examine seeds of the mutated package until one fails. Call `passed` for each other seed."""
    with tempfile.TemporaryDirectory(prefix="creek-mutant-") as directory:
        copy_package(Path(directory), mutant)
        scheme = mutant.scheme if mutant is not None else "differential"
        seed_range = range(seeds) if mutant is None else range(mutant.first, seeds, mutant.step)
        numbers = (str(seed_range.start), str(seed_range.stop), str(seed_range.step))
        command = [sys.executable, str(EXAMINER), directory, scheme, *numbers]
        environment = {**os.environ, "PYTHONPATH": directory, "PYTHONDONTWRITEBYTECODE": "1"}
        with (
            tempfile.TemporaryFile("w+") as errors,
            subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
            ) as process,
        ):
            assert process.stdout is not None
            examined, last, caught_by = 0, None, None
            for line in process.stdout:
                result = json.loads(line)
                examined, last, caught_by = examined + 1, result["seed"], result["caught_by"]
                if caught_by is None:
                    passed()
            if process.wait() != 0 or (caught_by is None and examined < len(seed_range)):
                errors.seek(0)
                name = mutant.name if mutant is not None else "control"
                raise RuntimeError(f"{name}: the examiner failed:\n{errors.read()}")
    return Result(examined, caught_by, last)


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    known = {mutant.name: mutant for mutant in MUTANTS}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        print(f"unknown mutant: {', '.join(unknown)}; --list shows all names", file=sys.stderr)
        return 2
    mutants = [known[name] for name in options.names] or list(MUTANTS)
    if options.list:
        _print_table(mutants, {})
        return 0
    try:
        for mutant in mutants:
            patched_files(mutant)
    except EditMismatch as error:
        print(error, file=sys.stderr)
        return 2
    results, control = _run(mutants, options.jobs)
    _print_table(mutants, results)
    return _print_summary(mutants, results, control)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run.py",
        description="Check that the fuzzer detects deliberate faults of the protocol.",
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="mutants to run; default: all")
    parser.add_argument("--list", action="store_true", help="list the mutants and exit")
    parser.add_argument(
        "--jobs", type=_positive, default=os.cpu_count() or 1, help="number of parallel processes"
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}: the minimum is 1")
    return number


def _run(mutants: Sequence[Mutant], jobs: int) -> tuple[dict[str, Result], Result]:
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("running mutants"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("mutants, {task.fields[seeds]} seeds,"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar, ThreadPoolExecutor(jobs) as workers:
        task = bar.add_task("mutants", total=len(mutants) + 1, seeds=0)
        seeds = iter(range(1, sys.maxsize))

        def passed() -> None:
            bar.update(task, seeds=next(seeds))

        # Mutants with the most seeds run first, so that no core idles at the end.
        by_seeds = sorted(mutants, key=lambda mutant: -mutant.seeds)
        control = workers.submit(examine, None, CONTROL_SEEDS, passed)
        running = {
            workers.submit(examine, mutant, mutant.seeds, passed): mutant.name
            for mutant in by_seeds
        }
        try:
            for future in as_completed([control, *running]):
                future.result()
                bar.advance(task)
        finally:
            workers.shutdown(wait=False, cancel_futures=True)
        return {name: future.result() for future, name in running.items()}, control.result()


def _print_table(mutants: Sequence[Mutant], results: dict[str, Result]) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("mutant", no_wrap=True)
    table.add_column("broken rule")
    if results:
        table.add_column("caught by")
        table.add_column("at seed", justify="right")
    table.add_column("of" if results else "seeds", justify="right")
    for mutant in mutants:
        row = [mutant.name, mutant.rule]
        result = results.get(mutant.name)
        survived = result is not None and result.caught_by is None
        if result is not None:
            row += [result.caught_by or "survived", "" if survived else str(result.seed)]
        # Cells are Text, because a rule may contain markup characters, such as [r].
        cells = (Text(cell) for cell in (*row, str(mutant.seeds)))
        table.add_row(*cells, style="bold red" if survived else None)
    console = Console(width=None if sys.stdout.isatty() else COLUMNS_WITHOUT_TERMINAL)
    console.print(table)


def _print_summary(mutants: Sequence[Mutant], results: dict[str, Result], control: Result) -> int:
    survivors = [name for name, result in results.items() if result.caught_by is None]
    print()
    if control.caught_by is not None:
        print(f"control: FAILED, {control.caught_by} at seed {control.seed} without a mutant")
    else:
        print(f"control: {control.seeds} seeds passed without a mutant")
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} mutants were detected")
    if survivors:
        print(f"survived: {', '.join(sorted(survivors))}")
    return 1 if survivors or control.caught_by is not None else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
