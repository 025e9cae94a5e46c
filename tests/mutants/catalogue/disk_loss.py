"""Mutants of the recovery from a lost disk, run with the seeds that lose a disk.

No seed has shown yet that reports of a majority are insufficient, or that reports must contain the
accepted values. Unit tests do (`tests/unit/schemes`).
"""

from creekdb.simulation.fuzz.scenario_generator import DISK_LOSS_EVERY, DISK_LOSS_OFFSET
from tests.mutants.catalogue import RELIABLE_BROADCAST, STACK, Edit, Mutant

DISK_LOSS_RECOVERY = "protocol/membership/disk_loss_recovery.py"

_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "joins_without_recovery",
        "a replica that lost its disk joins only after all members have reported their state",
        400,
        (Edit(STACK, "if settings.begin_anew and settings.peers(index):", "if False:"),),
    ),
    Mutant(
        "joins_without_received_requests",
        "a replica that lost its disk has all received requests of the others before it issues one",
        400,
        (
            Edit(
                DISK_LOSS_RECOVERY,
                "if response.decided > first_undecided or not received.covers(response.received):",
                "if response.decided > first_undecided:",
            ),
        ),
    ),
    Mutant(
        "joins_with_stale_ballot",
        "a replica that lost its disk starts above every ballot that it may have promised",
        400,
        (Edit(DISK_LOSS_RECOVERY, "if message.promised > self._ballot:", "if False:"),),
    ),
    Mutant(
        "assumes_lost_requests_are_present",
        "requests are retained again for a member that lost its disk",
        200,
        (Edit(RELIABLE_BROADCAST, "        self._summaries[peer] = Dots()\n", ""),),
    ),
)

MUTANTS = tuple(each._replace(step=DISK_LOSS_EVERY, first=DISK_LOSS_OFFSET) for each in _MUTANTS)
