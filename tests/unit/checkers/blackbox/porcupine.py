"""Compares verdicts with those of porcupine.

`python -m tests.unit.checkers.blackbox.porcupine DIR` reads a checkout of porcupine in DIR, from
https://github.com/anishathalye/porcupine. Its file `porcupine_test.go` states the expected verdict
on each history in `test_data`. Exits with 1 if a verdict differs.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from creekdb.checkers import Illegal, Ok, Verdict
from creekdb.checkers.blackbox import ObservedRun, get_model, read_calls
from creekdb.checkers.blackbox.linearizability.checker import check_linearizability

_JEPSEN: Final = re.compile(r"checkJepsen\(t, (\d+), (true|false)\)")
_KV: Final = re.compile(r'checkKv\(t, "([\w-]+)", (true|false), true\)')


class Expectation(NamedTuple):
    """History of porcupine, and the verdict that its test requires."""

    path: Path
    model: str
    is_linearizable: bool


def expectations(checkout: Path) -> Iterator[Expectation]:
    """Yield the histories that the tests of porcupine name."""
    tests = (checkout / "porcupine_test.go").read_text(encoding="utf-8")
    data = checkout / "test_data"
    for number, verdict in _JEPSEN.findall(tests):
        path = data / "jepsen" / f"etcd_{int(number):03}.log"
        yield Expectation(path, "register", verdict == "true")
    for name, verdict in _KV.findall(tests):
        yield Expectation(data / "kv" / f"{name}.txt", "text-kv", verdict == "true")


def verdict_on(history: Expectation) -> Verdict:
    model = get_model(history.model)
    run = ObservedRun(datatype=history.model, calls=read_calls(history.path, model))
    return check_linearizability(run, model).verdict


def main(checkout: Path) -> int:
    differing = total = 0
    for total, each in enumerate(expectations(checkout), 1):  # noqa: B007 - the last number
        verdict = verdict_on(each)
        if not isinstance(verdict, Ok if each.is_linearizable else Illegal):
            differing += 1
            print(f"{each.path.name}: {verdict.describe()}")
    print(f"{total - differing} of {total} verdicts are those of porcupine")
    return int(differing > 0 or not total)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
