"""Deliberate faults in how a replica whose disk was lost comes back; the seeds are those in which
that happens. That a majority of the others does not know enough, and that what they accepted must
be told again, no seed has shown yet: tests turned by hand do (`tests/unit/schemes`).
"""

from creek.simulation.plan import LOSE_AT, LOSE_EVERY
from tests.mutants.catalogue import BROADCASTS, Edit, Mutant

NEWCOMER = "protocol/newcomer.py"

_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "takes_part_at_once",
        "who lost its disk takes no part before all others have told what they know",
        400,
        (
            Edit(
                BROADCASTS,
                "if settings.begin_anew and settings.peers(index) and index in settings.members:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "enters_without_what_others_have",
        "who lost its disk has all that any other has received before it issues anything",
        400,
        (
            Edit(
                NEWCOMER,
                "if told.decided > first_undecided or not received.covers(told.received):",
                "if told.decided > first_undecided:",
            ),
        ),
    ),
)

MUTANTS = tuple(each._replace(step=LOSE_EVERY, first=LOSE_AT) for each in _MUTANTS)
