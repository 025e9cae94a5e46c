"""Break the protocol on purpose and see that the fuzzer notices: `make mutants`.

    python tests/mutants/run.py [NAME ...] [--list] [--jobs N]

Each mutant is examined seed by seed until one fails; the package as it is, the control, must pass.
Exits with 1 when a mutant survived or the control failed, with 2 when asked for what does not exist
or when a mutant does not apply.
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
    catalogue,
    compared,
    members,
    newcomers,
    scans,
    snapshots,
    versions,
    waiting,
)
from tests.mutants.catalogue import Mutant
from tests.mutants.patched import DoesNotApply, copy_package, patched

MUTANTS: tuple[Mutant, ...] = (
    *catalogue.MUTANTS,
    *snapshots.MUTANTS,
    *versions.MUTANTS,
    *scans.MUTANTS,
    *compared.MUTANTS,
    *members.MUTANTS,
    *newcomers.MUTANTS,
    *waiting.MUTANTS,
)
EXAMINER = Path(__file__).with_name("examiner.py")
CONTROL_SEEDS = 200
COLUMNS_WITHOUT_TERMINAL = 160


class Result(NamedTuple):
    seeds: int
    """How many were examined."""
    caught_by: str | None
    """At the last one of them."""
    seed: int | None
    """Which that is."""


def examine(mutant: Mutant | None, seeds: int, passed: Callable[[], None]) -> Result:
    """Examine seeds of the package with the mutant in it until one fails; `passed` is called for
    each that does not."""
    with tempfile.TemporaryDirectory(prefix="creek-mutant-") as folder:
        copy_package(Path(folder), mutant)
        scheme = mutant.scheme if mutant is not None else "both"
        order = range(seeds) if mutant is None else range(mutant.first, seeds, mutant.step)
        numbers = (str(order.start), str(order.stop), str(order.step))
        command = [sys.executable, str(EXAMINER), folder, scheme, *numbers]
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        with (
            tempfile.TemporaryFile("w+") as complaints,
            subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=complaints, text=True
            ) as process,
        ):
            assert process.stdout is not None
            examined, last, caught_by = 0, None, None
            for line in process.stdout:
                told = json.loads(line)
                examined, last, caught_by = examined + 1, told["seed"], told["caught_by"]
                if caught_by is None:
                    passed()
            if process.wait() != 0 or (caught_by is None and examined < len(order)):
                complaints.seek(0)
                name = mutant.name if mutant is not None else "control"
                raise RuntimeError(f"{name}: the examiner failed\n{complaints.read()}")
    return Result(examined, caught_by, last)


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    known = {mutant.name: mutant for mutant in MUTANTS}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        print(f"no mutant is called {', '.join(unknown)}; --list shows them all", file=sys.stderr)
        return 2
    mutants = [known[name] for name in options.names] or list(MUTANTS)
    if options.list:
        _show(mutants, {})
        return 0
    try:
        for mutant in mutants:
            patched(mutant)
    except DoesNotApply as problem:
        print(problem, file=sys.stderr)
        return 2
    results, control = _run(mutants, options.jobs)
    _show(mutants, results)
    return _sum_up(mutants, results, control)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run.py", description="Break the protocol on purpose and see that the fuzzer notices."
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="mutants; all without any")
    parser.add_argument("--list", action="store_true", help="only list them")
    parser.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, help="processes")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}: at least 1 is needed")
    return number


def _run(mutants: Sequence[Mutant], jobs: int) -> tuple[dict[str, Result], Result]:
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("breaking the protocol"),
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

        # The hardest first, so that no core waits for one of them at the end.
        hardest_first = sorted(mutants, key=lambda mutant: -mutant.seeds)
        control = workers.submit(examine, None, CONTROL_SEEDS, passed)
        running = {
            workers.submit(examine, mutant, mutant.seeds, passed): mutant.name
            for mutant in hardest_first
        }
        try:
            for future in as_completed([control, *running]):
                future.result()
                bar.advance(task)
        finally:
            workers.shutdown(wait=False, cancel_futures=True)
        return {name: future.result() for future, name in running.items()}, control.result()


def _show(mutants: Sequence[Mutant], results: dict[str, Result]) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("mutant", no_wrap=True)
    table.add_column("the rule that it breaks")
    if results:
        table.add_column("caught by")
        table.add_column("at seed", justify="right")
    table.add_column("of" if results else "seeds", justify="right")
    for mutant in mutants:
        row = [mutant.name, mutant.rule]
        result = results.get(mutant.name)
        survived = result is not None and result.caught_by is None
        if result is not None:
            row += [result.caught_by or "nobody", "" if survived else str(result.seed)]
        # As Text: a rule may hold what would be markup, such as [r].
        cells = (Text(cell) for cell in (*row, str(mutant.seeds)))
        table.add_row(*cells, style="bold red" if survived else None)
    console = Console(width=None if sys.stdout.isatty() else COLUMNS_WITHOUT_TERMINAL)
    console.print(table)


def _sum_up(mutants: Sequence[Mutant], results: dict[str, Result], control: Result) -> int:
    survivors = [name for name, result in results.items() if result.caught_by is None]
    print()
    if control.caught_by is not None:
        print(f"control: FAILED, {control.caught_by} at seed {control.seed} without any fault")
    else:
        print(f"control: {control.seeds} seeds without a fault passed")
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} mutants were caught")
    if survivors:
        print(f"survived: {', '.join(sorted(survivors))}")
    return 1 if survivors or control.caught_by is not None else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
