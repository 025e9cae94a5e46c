"""Deliberate faults in how members change; the seeds are those in which they do. That what one has
issued is handed over to a majority, and not to one alone, no seed has shown yet: a test turned by
hand does (`tests/unit/schemes`).
"""

from creekdb.simulation.fuzz.scenario_generator import (
    ISOLATED_REMOVAL_EVERY,
    MEMBER_CHANGE_EVERY,
    MEMBER_CHANGE_OFFSET,
)
from tests.mutants.catalogue import (
    ACCEPTOR,
    BROADCASTS,
    GOSSIP,
    LEADER,
    LEARNER,
    ORDERING,
    Edit,
    Mutant,
)

MEMBERS = "protocol/membership/configuration.py"
SETTINGS = "protocol/settings.py"

_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "members_change_at_once",
        "a change takes effect where it is committed, not where it is received",
        200,
        (
            Edit(
                ORDERING,
                "        self._order.insert(request)  # lines 36-40\n",
                (
                    "        self._order.insert(request)  # lines 36-40\n"
                    "        if request.operation.name == MEMBERSHIP_OPERATION:\n"
                    "            self._change_members(request.operation, 0)\n"
                ),
            ),
        ),
    ),
    Mutant(
        "old_quorum_kept",
        "a batch is decided by a majority of those whose ballot it is",
        400,
        (
            Edit(
                LEARNER,
                (
                    "        self._settings = settings\n"
                    "        self._peers = settings.peers(self._index)\n"
                    "        self.reconfigured_below"
                ),
                (
                    "        self._peers = settings.peers(self._index)\n"
                    "        self.reconfigured_below"
                ),
            ),
        ),
    ),
    Mutant(
        "old_quorum_of_promises_kept",
        "a leader is promised its ballot by a majority of those whose ballot it is",
        400,
        (
            Edit(
                LEADER,
                "        self._settings = settings\n"
                "        self._peers = settings.peers(self._index)\n"
                "        self.step_down",
                "        self._peers = settings.peers(self._index)\n        self.step_down",
            ),
        ),
    ),
    Mutant(
        "ballots_go_on",
        "members of another epoch vote in ballots of their own",
        200,
        (
            Edit(SETTINGS, "return max(1, self.epoch * ROUNDS_PER_EPOCH)", "return 1"),
            Edit(SETTINGS, "return (self.epoch + 1) * ROUNDS_PER_EPOCH", "return 2**61"),
        ),
    ),
    Mutant(
        "leader_stays",
        "a leader whose members have changed prepares a ballot of the new ones",
        400,
        (
            Edit(
                LEADER,
                "self._peers = settings.peers(self._index)\n        self.step_down()",
                "self._peers = settings.peers(self._index)",
            ),
        ),
    ),
    Mutant(
        "deferred_vote_of_old_members",
        "a deferred vote is void once the members have changed",
        400,
        (
            Edit(
                ACCEPTOR,
                "        self._peers = peers\n        self._deferred.clear()\n",
                "        self._peers = peers\n",
            ),
        ),
    ),
    Mutant(
        "two_changes_at_once",
        "a change is refused when another one was committed after it was asked for",
        800,
        (Edit(MEMBERS, "if change.epoch != epoch:", "if False:"),),
    ),
    Mutant(
        "snapshot_without_members",
        "who installs a snapshot knows the members from it",
        200,
        (
            Edit(
                BROADCASTS,
                "            self.reconfigure(configuration, checkpoint.instance)\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "decisions_of_unknown_members",
        "who has missed a change is sent a snapshot, not what it cannot understand",
        400,
        (
            Edit(
                LEARNER,
                "if first < self.first_retained or first < self.reconfigured_below:",
                "if first < self.first_retained:",
            ),
        ),
    ),
    Mutant(
        "removed_falls_silent",
        "who was removed tells the others, until enough of them know",
        200,
        (Edit(BROADCASTS, "if not self.can_shut_down:", "if False:"),),
    ),
    Mutant(
        "former_members_are_ignored",
        "who was removed while it was away is told so",
        200,
        (Edit(BROADCASTS, "case Heartbeat() | Progress():", "case Heartbeat() if False:"),),
    ),
    Mutant(
        "nothing_kept_for_new_members",
        "what the old members all have is kept for the new one",
        3200,
        (
            Edit(
                GOSSIP,
                "if not set(settings.members) <= set(self._settings.members):",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "recovered_requests_of_members_only",
        "what was received from a new member is found on the disk again",
        1200,
        (
            Edit(
                GOSSIP,
                "            if self.received.add(request.id):\n",
                "            if request.id.replica in self._settings.members and "
                "self.received.add(request.id):\n",
            ),
        ),
    ),
    Mutant(
        "answers_for_old_members_only",
        "a new member that is carried over its requests by a snapshot finds their answers in it",
        600,
        (
            Edit(
                ORDERING,
                "self._responses.retained.reconfigure(peers)",
                "pass",
            ),
        ),
    ),
)

_HANDOVER: tuple[Mutant, ...] = (
    Mutant(
        "former_members_hand_over_nothing",
        "what one issued before it knew that it was removed is taken from it",
        400,
        (
            Edit(
                BROADCASTS,
                "return validation.requests_rejection_reason(requests, self.settings.all_replicas)",
                "return validation.REMOVED_MEMBER",
            ),
        ),
    ),
    Mutant(
        "dismissed_with_what_it_issued",
        "who was removed is not dismissed before a majority has what it issued",
        400,
        (
            Edit(
                BROADCASTS,
                "return has_told and self._handover.is_complete("
                "self._uncommitted(), self.settings)",
                "return has_told",
            ),
        ),
    ),
    Mutant(
        "hands_over_its_own_alone",
        "what one issued is handed over with all that it comes after",
        12800,
        (
            Edit(
                BROADCASTS,
                "            if not self._application.is_committed(request.id):\n"
                "                yield request\n",
                "            own = request.id.replica == self.index\n"
                "            if own and not self._application.is_committed(request.id):\n"
                "                yield request\n",
            ),
        ),
    ),
    Mutant(
        "removed_casts_once",
        "who was removed casts what it issued until others have it",
        400,
        (
            Edit(
                BROADCASTS,
                "self._handover.send(self._uncommitted(), self.settings)",
                "pass",
            ),
        ),
    ),
)

MUTANTS = (
    *(each._replace(step=MEMBER_CHANGE_EVERY, first=MEMBER_CHANGE_OFFSET) for each in _MUTANTS),
    *(each._replace(step=ISOLATED_REMOVAL_EVERY, first=MEMBER_CHANGE_OFFSET) for each in _HANDOVER),
)
