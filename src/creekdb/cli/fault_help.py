"""The language of faults, explained: what `creek simulate --help-faults` prints."""

from textwrap import wrap

from creekdb.simulation.faults.language import FORMS

EXAMPLE_WIDTH = 37
MEANING_WIDTH = 80 - EXAMPLE_WIDTH

_BEFORE = """\
Give faults with --fault, once for each, or in a file with --faults. A fault is a name, what it is
about, and when it happens. Replicas are numbered from 0. A time is a number and its unit, without a
space: us, ms, s, m, h or d. A probability is 10% or 0.1."""

_AFTER = """\
Of five replicas, 'partition 0,1 at 1s' is 'partition 0,1|2,3,4 at 1s': the rest is one group.
At the end of --duration every fault is healed, but for death, severed links and wrong clocks."""


def fault_help() -> str:
    lines = [*wrap(_BEFORE, 80), ""]
    for example, meaning in FORMS.values():
        first, *rest = wrap(meaning, MEANING_WIDTH)
        lines.append(f"{example:{EXAMPLE_WIDTH}}{first}")
        lines += [f"{'':{EXAMPLE_WIDTH}}{line}" for line in rest]
    return "\n".join([*lines, "", *wrap(_AFTER, 80)])
