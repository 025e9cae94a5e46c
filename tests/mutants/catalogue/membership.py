"""Mutants of membership changes, run with the seeds that change the members.

No seed has shown yet that a removed replica must hand over its requests to a majority instead of
one member. A unit test does (`tests/unit/schemes`).
"""

from creekdb.simulation.fuzz.scenario_generator import (
    ISOLATED_REMOVAL_EVERY,
    MEMBER_CHANGE_EVERY,
    MEMBER_CHANGE_OFFSET,
)
from tests.mutants.catalogue import (
    ACCEPTOR,
    CAB,
    LEADER,
    LEARNER,
    ORDERING,
    RELIABLE_BROADCAST,
    RESPONSES,
    STACK,
    Edit,
    Mutant,
)

CONFIGURATION = "protocol/membership/configuration.py"
SETTINGS = "protocol/settings.py"

_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "applies_change_on_arrival",
        "a membership change takes effect at its commit, not on arrival",
        200,
        (
            Edit(
                ORDERING,
                "        self._order.insert(request)  # lines 36-40\n",
                (
                    "        self._order.insert(request)  # lines 36-40\n"
                    "        if request.operation.name == MEMBERSHIP_OPERATION:\n"
                    "            self._apply_membership_change(request.operation, 0)\n"
                ),
            ),
        ),
    ),
    Mutant(
        "decides_with_old_quorum",
        "a batch is decided by a majority of the members of its ballot's epoch",
        400,
        (
            Edit(
                LEARNER,
                "self._shared = shared\n",
                "self._shared, self._settings = shared, shared.settings\n",
            ),
            Edit(LEARNER, "< self._shared.settings.majority", "< self._settings.majority"),
        ),
    ),
    Mutant(
        "leads_with_old_quorum",
        "a ballot is promised by a majority of the members of its epoch",
        400,
        (
            Edit(
                LEADER,
                "self._shared = shared\n",
                "self._shared, self._settings = shared, shared.settings\n",
            ),
            Edit(LEADER, ">= self._shared.settings.majority", ">= self._settings.majority"),
        ),
    ),
    Mutant(
        "continues_ballots_of_old_epoch",
        "the members of an epoch vote only in ballots of that epoch",
        200,
        (
            Edit(SETTINGS, "return max(1, self.epoch * ROUNDS_PER_EPOCH)", "return 1"),
            Edit(SETTINGS, "return (self.epoch + 1) * ROUNDS_PER_EPOCH", "return 2**61"),
        ),
    ),
    Mutant(
        "leader_keeps_ballot_after_change",
        "a leader prepares a ballot of the new epoch after a membership change",
        400,
        (Edit(CAB, "self.leader.step_down()  # leading the new members", "pass  #"),),
    ),
    Mutant(
        "casts_deferred_vote_of_old_epoch",
        "a deferred vote is void after a membership change",
        400,
        (
            Edit(
                ACCEPTOR,
                'members."""\n        self._deferred.clear()\n',
                'members."""\n',
            ),
        ),
    ),
    Mutant(
        "applies_concurrent_changes",
        "a change is rejected if another one was committed since its call",
        800,
        (Edit(CONFIGURATION, "if change.epoch != epoch:", "if False:"),),
    ),
    Mutant(
        "snapshot_ignores_members",
        "a replica that installs a snapshot adopts its members",
        200,
        (
            Edit(
                STACK,
                "            self.reconfigure(configuration, checkpoint.instance)\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "sends_decisions_across_change",
        "a replica that missed a membership change gets a snapshot instead of decisions",
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
        "removed_replica_stops_reporting",
        "a removed replica reports its removal until enough members have learned of it",
        200,
        (Edit(STACK, "if not self.can_shut_down:", "if False:"),),
    ),
    Mutant(
        "ignores_removed_replicas",
        "a replica that was removed while offline is informed of its removal",
        200,
        (Edit(STACK, "case Heartbeat() | Progress():", "case Heartbeat() if False:"),),
    ),
    Mutant(
        "discards_requests_new_members_lack",
        "requests that all old members have are retained for a new member",
        3200,
        (
            Edit(
                STACK,
                "has_added = not set(settings.members) <= set(previous_members)",
                "has_added = False",
            ),
        ),
    ),
    Mutant(
        "recovers_requests_of_founders_only",
        "requests of an added member are recovered from disk",
        1200,
        (
            Edit(
                RELIABLE_BROADCAST,
                "            if self.received.add(request.id):\n",
                "            if request.id.replica in self._shared.settings.members and "
                "self.received.add(request.id):\n",
            ),
        ),
    ),
    Mutant(
        "retains_outcomes_for_old_members_only",
        "an added member finds the outcomes of its requests in a snapshot",
        600,
        (
            Edit(
                RESPONSES,
                "self._shared = shared\n",
                "self._shared, self._peers = shared, shared.peers\n",
            ),
            Edit(
                RESPONSES, "id.replica not in self._shared.peers", "id.replica not in self._peers"
            ),
        ),
    ),
)

_HANDOVER: tuple[Mutant, ...] = (
    Mutant(
        "rejects_handover",
        "requests that a replica issued before it learned of its removal are accepted from it",
        400,
        (
            Edit(
                STACK,
                "return validation.requests_rejection_reason(requests, self.settings.all_replicas)",
                "return MessageRejection.REMOVED_MEMBER",
            ),
        ),
    ),
    Mutant(
        "shuts_down_before_handover",
        "a removed replica shuts down only after a majority has its requests",
        400,
        (
            Edit(
                STACK,
                "return majority_informed and self._handover.is_complete(self._uncommitted())",
                "return majority_informed",
            ),
        ),
    ),
    Mutant(
        "hands_over_own_requests_only",
        "a removed replica hands over its requests with all their predecessors",
        12800,
        (
            Edit(
                STACK,
                "            if not self.requests.is_committed(request.id):\n"
                "                yield request\n",
                "            own = request.id.replica == self.index\n"
                "            if own and not self.requests.is_committed(request.id):\n"
                "                yield request\n",
            ),
        ),
    ),
    Mutant(
        "hands_over_once",
        "a removed replica repeats its handover until other members have its requests",
        400,
        (
            Edit(
                STACK,
                "self._handover.send(self._uncommitted())",
                "pass",
            ),
        ),
    ),
)

MUTANTS = (
    *(each._replace(step=MEMBER_CHANGE_EVERY, first=MEMBER_CHANGE_OFFSET) for each in _MUTANTS),
    *(each._replace(step=ISOLATED_REMOVAL_EVERY, first=MEMBER_CHANGE_OFFSET) for each in _HANDOVER),
)
