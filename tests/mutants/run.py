"""Mutation test of the fuzzer and of the tests: `make mutants`.

    python tests/mutants/run.py [NAME ...] [--list] [--jobs N]

Each mutant is examined by seeds of the fuzzer or by the tests that it names, until one fails. The
unmodified package, the control, must pass both. The exit status is 1 if a mutant survived or the
control failed. It is 2 if a name is unknown or a mutant does not apply.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib import import_module
from itertools import groupby
from pathlib import Path
from pkgutil import iter_modules
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script, by its path

from tests.mutants import catalogue
from tests.mutants.catalogue import AnyMutant, Mutant, MutantWithTests
from tests.mutants.patching import EditMismatch, copy_package, patched_files

MUTANTS: tuple[AnyMutant, ...] = tuple(
    mutant
    for module in iter_modules(catalogue.__path__, f"{catalogue.__name__}.")
    for mutant in import_module(module.name).MUTANTS
)
REPOSITORY = Path(__file__).resolve().parents[2]
EXAMINER = Path(__file__).with_name("examiner.py")
TESTER = Path(__file__).with_name("tester.py")
CONTROL_SEEDS = 200
COLUMNS_WITHOUT_TERMINAL = 160


class Result(NamedTuple):
    caught_by: str | None
    """Check of the fuzzer or test that failed, or None."""
    passed: int
    """Number of seeds or tests that passed."""
    seed: int | None
    """Last examined seed, or None if tests examined the mutant."""
    seconds: float
    """Time until the failure or the end."""
    error: str | None = None
    """Output of an examination that neither passed nor failed, or None."""


def examine(mutant: AnyMutant, on_pass: Callable[[], None] = lambda: None) -> Result:
    """Examine the mutated package seed by seed, or test by test, until one fails."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="creek-mutant-") as directory:
        copy_package(Path(directory), mutant)
        environment = {**os.environ, "PYTHONPATH": directory, "PYTHONDONTWRITEBYTECODE": "1"}
        with (
            tempfile.TemporaryFile("w+") as errors,
            subprocess.Popen(
                [sys.executable, *_examination(mutant, directory)],
                cwd=REPOSITORY,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as process,
        ):
            assert process.stdout is not None
            passed, caught_by, seed = 0, None, None
            for line in process.stdout:
                result = json.loads(line)
                caught_by, seed = result["caught_by"], result.get("seed")
                if caught_by is not None:
                    break
                passed += 1
                on_pass()
            error = None
            if process.wait() != 0 and caught_by is None:
                errors.seek(0)
                error = errors.read()
    return Result(caught_by, passed, seed, time.monotonic() - started, error)


def _examination(mutant: AnyMutant, directory: str) -> list[str]:
    """Return the script that examines the mutant, with its arguments."""
    if isinstance(mutant, MutantWithTests):
        return [str(TESTER), directory, *mutant.tests]
    seeds = (str(mutant.first), str(mutant.seeds), str(mutant.step))
    return [str(EXAMINER), directory, mutant.scheme, *seeds]


def controls(mutants: Sequence[AnyMutant]) -> list[AnyMutant]:
    """Return mutants without edits: one for the fuzzer, and one for the tests of each folder."""
    found: list[AnyMutant] = []
    if any(isinstance(each, Mutant) for each in mutants):
        found.append(Mutant("control", "unmodified", CONTROL_SEEDS, (), "differential"))
    named = {test for each in mutants if isinstance(each, MutantWithTests) for test in each.tests}
    for folder, tests in groupby(sorted(named), key=lambda test: test.split("/")[1]):
        found.append(MutantWithTests(f"control of {folder}", "unmodified", tuple(tests), ()))
    return found


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
    unmodified = controls(mutants)
    # Mutants with the most seeds run first, so that no core idles at the end.
    by_seeds = sorted(mutants, key=lambda mutant: -_seeds(mutant))
    results = _run([*unmodified, *by_seeds], options.jobs)
    _print_table(mutants, results)
    return _print_summary(mutants, unmodified, results)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run.py",
        description="Check that the fuzzer and the tests detect deliberate faults.",
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


def _run(mutants: Sequence[AnyMutant], jobs: int) -> dict[str, Result]:
    """Return the results of the mutants, by name."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("running mutants"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("mutants, {task.fields[passed]} passed seeds and tests,"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar, ThreadPoolExecutor(jobs) as workers:
        task = bar.add_task("mutants", total=len(mutants), passed=0)
        passed = iter(range(1, sys.maxsize))

        def on_pass() -> None:
            bar.update(task, passed=next(passed))

        running = {workers.submit(examine, each, on_pass): each.name for each in mutants}
        try:
            for count, future in enumerate(as_completed(running), 1):
                result = future.result()
                bar.advance(task)
                if bar.disable:
                    outcome = result.caught_by or ("passed" if result.error is None else "error")
                    line = f"{count} of {len(mutants)}  {running[future]}: {outcome}"
                    print(line, file=sys.stderr, flush=True)
        finally:
            workers.shutdown(wait=False, cancel_futures=True)
        return {name: future.result() for future, name in running.items()}


def _seeds(mutant: AnyMutant) -> int:
    return mutant.seeds if isinstance(mutant, Mutant) else 0


def _print_table(mutants: Sequence[AnyMutant], results: dict[str, Result]) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("mutant", no_wrap=True)
    table.add_column("broken rule")
    if results:
        table.add_column("caught by", overflow="fold")
        table.add_column("after", justify="right", no_wrap=True)
        table.add_column("s", justify="right")
    else:
        table.add_column("examined by")
    for mutant in mutants:
        result = results.get(mutant.name)
        row = [mutant.name, mutant.rule]
        if result is not None:
            row += [result.caught_by or "survived", _progress(result), f"{result.seconds:.1f}"]
        else:
            row.append(_examiner_text(mutant))
        survived = result is not None and result.caught_by is None
        # Cells are Text, because a rule may contain markup characters, such as [r].
        table.add_row(*map(Text, row), style="bold red" if survived else None)
    console = Console(width=None if sys.stdout.isatty() else COLUMNS_WITHOUT_TERMINAL)
    console.print(table)


def _examiner_text(mutant: AnyMutant) -> str:
    if isinstance(mutant, MutantWithTests):
        return ", ".join(mutant.tests)
    return f"{mutant.seeds} seeds of the fuzzer"


def _progress(result: Result) -> str:
    if result.caught_by is None:
        return f"{result.passed} passed"
    return f"test {result.passed + 1}" if result.seed is None else f"seed {result.seed}"


def _print_summary(
    mutants: Sequence[AnyMutant], controls: Sequence[AnyMutant], results: dict[str, Result]
) -> int:
    survivors = [each.name for each in mutants if results[each.name].caught_by is None]
    failed_controls = [each for each in controls if results[each.name].caught_by is not None]
    errors = {name: each.error for name, each in results.items() if each.error is not None}
    print()
    for name, error in errors.items():
        print(f"{name}: the examination did not end:\n{error}")
    for control in controls:
        result = results[control.name]
        kind = "tests" if isinstance(control, MutantWithTests) else "seeds"
        if result.caught_by is None:
            print(f"{control.name}: {result.passed} {kind} passed without a mutant")
        else:
            print(
                f"{control.name}: FAILED, {result.caught_by}, {_progress(result)} without a mutant"
            )
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} mutants were detected")
    if survivors:
        print(f"survived: {', '.join(sorted(survivors))}")
    return 1 if survivors or failed_controls or errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
