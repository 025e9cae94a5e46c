"""Mutants: each breaks one rule, and an examination must detect it.

A mutant is one or more edits of the source, applied to a copy of it. A fuzzer that misses a mutant
within the stated number of seeds has lost a capability.

Each module of this package has `MUTANTS`, which `make mutants` finds by itself. Mutants that no run
can distinguish from the original are not listed.
"""

from typing import NamedTuple, TypeAlias


class Edit(NamedTuple):
    file: str
    """Path relative to the package."""
    before: str
    """Source text that occurs exactly once in the file."""
    after: str


class Mutant(NamedTuple):
    name: str
    rule: str
    """Rule that the mutant breaks."""
    seeds: int
    """Upper bound (exclusive) of the seeds, one of which must detect the mutant."""
    edits: tuple[Edit, ...]
    scheme: str = "basic"
    """Scheme to run; `differential` compares `creek` with `basic`."""
    first: int = 0
    step: int = 1
    """Distance between two seeds, from `first` on."""


class MutantWithTests(NamedTuple):
    """A mutant that named tests detect, because the fuzzer does not run the code."""

    name: str
    rule: str
    """Rule that the mutant breaks."""
    tests: tuple[str, ...]
    """Test files or tests, relative to the repository, one of which must fail."""
    edits: tuple[Edit, ...]


AnyMutant: TypeAlias = Mutant | MutantWithTests


def tested(
    name: str, rule: str, tests: str | tuple[str, ...], file: str, before: str, after: str
) -> MutantWithTests:
    """Return a mutant with one edit."""
    tests = (tests,) if isinstance(tests, str) else tests
    return MutantWithTests(name, rule, tests, (Edit(file, before, after),))


BASIC = "schemes/basic.py"
ORDERING = "schemes/core/ordering.py"
SEQUENTIAL = "schemes/core/sequential.py"
RESPONSES = "schemes/core/responses.py"
STABLE_PREFIX = "schemes/core/stable_prefix.py"
UNDO = "execution/undo.py"
STACK = "protocol/stack.py"
CAB = "protocol/broadcast/cab.py"
RELIABLE_BROADCAST = "protocol/broadcast/reliable.py"
OMEGA = "protocol/consensus/omega.py"
ORDER = "protocol/order.py"
REQUEST = "protocol/request.py"
ACCEPTOR = "protocol/consensus/acceptor.py"
LEADER = "protocol/consensus/leader.py"
LEARNER = "protocol/consensus/learner.py"
