"""Verdicts as lines of text, and what they mean for the exit code."""

from collections.abc import Sequence
from textwrap import wrap

from rich.text import Text

from creekdb.checkers import Illegal, Ok, Unknown, Verdict
from creekdb.cli.output import results

WIDTH_MIN, WIDTH_MAX = 20, 76


def all_legal(verdicts: Sequence[Verdict]) -> bool:
    """Unknown is no accusation: the history does not tell."""
    return not any(isinstance(each, Illegal) for each in verdicts)


def verdict_lines(verdicts: Sequence[Verdict]) -> list[Text]:
    """What was found, with its counterexample, and the names of the checkers that found nothing."""
    good = [each.checker for each in verdicts if isinstance(each, Ok)]
    sign = ("✓ ", "green") if all_legal(verdicts) else ("✗ ", "red")
    unsure = [each for each in verdicts if isinstance(each, Unknown)]
    cannot = f", {len(unsure)} cannot tell" if unsure else ""
    lines = [Text.assemble(sign, f"{len(good)} of {len(verdicts)} checkers say ok{cannot}")]
    width = min(WIDTH_MAX, max(WIDTH_MIN, results().width - 2))
    names = ", ".join(name.replace("_", " ") for name in good)
    lines += [Text(f"  {line}", style="dim") for line in wrap(names, width)]
    lines += [
        Text(f"unknown  {each.checker}: not checked, which is no fault: {each.reason}", "yellow")
        for each in unsure
    ]
    lines += [Text(each.describe(), "red") for each in verdicts if isinstance(each, Illegal)]
    return lines
