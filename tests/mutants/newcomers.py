"""Deliberate faults in how a replica whose disk was lost comes back; the seeds are those in which
that happens. That a majority of the others does not know enough, and that what they accepted must
be told again, no seed has shown yet: tests turned by hand do (`tests/unit/schemes`).
"""

from creekdb.simulation.fuzz.scenario_generator import DISK_LOSS_EVERY, DISK_LOSS_OFFSET
from tests.mutants.catalogue import BROADCASTS, GOSSIP, Edit, Mutant

NEWCOMER = "protocol/membership/disk_loss_recovery.py"

_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "takes_part_at_once",
        "who lost its disk takes no part before all others have told what they know",
        400,
        (Edit(BROADCASTS, "if settings.begin_anew and settings.peers(index):", "if False:"),),
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
    Mutant(
        "enters_with_a_ballot_that_others_are_beyond",
        "who lost its disk begins with a ballot above all that it may have promised",
        400,
        (Edit(NEWCOMER, "if message.promised > self._ballot:", "if False:"),),
    ),
    Mutant(
        "thought_to_have_what_it_lost",
        "what one had that lost its disk is kept for it again",
        200,
        (Edit(GOSSIP, "        self._summaries[peer] = Dots()\n", ""),),
    ),
)

MUTANTS = tuple(each._replace(step=DISK_LOSS_EVERY, first=DISK_LOSS_OFFSET) for each in _MUTANTS)
