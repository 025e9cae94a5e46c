"""Mutants of checkpoints and snapshots, which replace a prefix of the order."""

from tests.mutants.catalogue import (
    CAB,
    LEARNER,
    RELIABLE_BROADCAST,
    RESPONSES,
    SEQUENTIAL,
    STABLE_PREFIX,
    STACK,
    Edit,
    Mutant,
)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "checkpoint_omits_tentative_requests",
        "a checkpoint record holds every request that its checkpoint does not cover",
        130,
        (Edit(STABLE_PREFIX, "yield from order.tentative", "yield from ()"),),
    ),
    Mutant(
        "checkpoint_omits_committed_requests",
        "a checkpoint record holds the requests committed after its checkpoint",
        150,
        (
            Edit(
                STABLE_PREFIX,
                "yield from islice(order.committed,",
                "yield from islice((),",
            ),
        ),
    ),
    Mutant(
        "checkpoint_omits_decisions",
        "a checkpoint record holds the decisions after its checkpoint",
        400,
        (Edit(STACK, "accepted, decided, requests)\n", "accepted, (), requests)\n"),),
    ),
    Mutant(
        "checkpoint_omits_promise",
        "a checkpoint record holds the acceptor's promised ballot",
        600,
        (
            Edit(
                STACK,
                "CheckpointRecord(checkpoint, acceptor.promised, accepted,",
                "CheckpointRecord(checkpoint, type(acceptor.promised)(0, 0), accepted,",
            ),
        ),
    ),
    Mutant(
        "checkpoint_omits_accepted_values",
        "a checkpoint record holds the acceptor's accepted values",
        200,
        (
            Edit(
                STACK,
                "CheckpointRecord(checkpoint, acceptor.promised, accepted,",
                "CheckpointRecord(checkpoint, acceptor.promised, (),",
            ),
        ),
    ),
    Mutant(
        "discards_decisions_before_they_are_stable",
        "a decision is retained until a checkpoint covers it",
        150,
        (
            Edit(
                LEARNER,
                "self.discard_below(min(delivered_by_all, stable_instance))",
                "self.discard_below(min(delivered_by_all, self.delivered))",
            ),
        ),
    ),
    Mutant(
        "redelivers_requests_of_snapshot",
        "requests that a checkpoint covers are not delivered again",
        50,
        (Edit(STACK, "self.reliable_broadcast.mark_delivered(checkpoint.ids)", "pass"),),
    ),
    Mutant(
        "skips_predicates_on_snapshot",
        "validity: a checkpoint re-evaluates the predicates that wait for a request it covers",
        550,
        (
            Edit(
                CAB,
                (
                    "for blocked in self._blocked.values():\n"
                    "            self._unblocked.extend(blocked)"
                ),
                "pass",
            ),
        ),
    ),
    Mutant(
        "checkpoint_instance_too_high",
        "a checkpoint covers every request that the instances below its own delivered",
        40,
        (
            Edit(
                STABLE_PREFIX,
                "instance=self.instance,",
                "instance=self.instance + 1,",
            ),
        ),
    ),
    Mutant(
        "checkpoint_instance_too_low",
        "a checkpoint covers only requests that the instances below its own delivered",
        20,
        (
            Edit(
                STABLE_PREFIX,
                "instance=self.instance,",
                "instance=max(0, self.instance - 1),",
            ),
        ),
    ),
    Mutant(
        "checkpoint_includes_tentative_writes",
        "a checkpoint holds the committed state, without tentative writes",
        300,
        (Edit(SEQUENTIAL, "self._state.committed_state().items()", "self._state.items()"),),
    ),
    Mutant(
        "installs_older_snapshot",
        "committed only grows: an older checkpoint changes nothing",
        250,
        (
            Edit(
                STACK,
                "if checkpoint.instance <= self.cab.learner.delivered:\n            return\n",
                "if False:\n            return\n",
            ),
        ),
    ),
    Mutant(
        "snapshot_omits_outcomes",
        "line 73: a strong operation gets its stable response, if necessary from a snapshot",
        200,
        (
            Edit(
                STABLE_PREFIX,
                "outcomes=self._responses.retained.outcomes(),",
                "outcomes=(),",
            ),
        ),
    ),
    Mutant(
        "snapshot_swaps_outcomes",
        "an outcome in a snapshot belongs to its request",
        150,
        (
            Edit(
                RESPONSES,
                "for id, outcome in checkpoint.outcomes:",
                "for (id, _), (_, outcome) in zip("
                "checkpoint.outcomes, reversed(checkpoint.outcomes)):",
            ),
        ),
    ),
    Mutant(
        "never_delivers_requests_held_before_snapshot",
        "a request held back for others is delivered once a snapshot covers these",
        20,
        (
            Edit(
                RELIABLE_BROADCAST,
                (
                    "max(discarded, ids.last_contiguous(replica))\n"
                    "            self.deliver_next_of(replica)"
                ),
                "max(discarded, ids.last_contiguous(replica))",
            ),
        ),
    ),
    Mutant(
        "blocked_replica_requests_no_snapshot",
        "a replica blocked by a discarded request asks for the decision and gets a snapshot",
        60,
        (
            Edit(
                LEARNER,
                "first = self.delivered if blocked else self.first_undecided",
                "first = self.first_undecided",
            ),
        ),
    ),
    Mutant(
        "drops_retained_outcomes_early",
        "an outcome is retained until the issuing replica has executed the request",
        60,
        (
            Edit(
                RESPONSES,
                "retained.outcomes[0][0] <= stable_instance",
                "retained.outcomes[0][0] <= stable_instance + 1",
            ),
        ),
    ),
    Mutant(
        "snapshot_response_to_strong_is_tentative",
        "the outcome of a strong operation in a snapshot is its stable response",
        20,
        (
            Edit(
                RESPONSES,
                "self.respond_stable(id, outcome)\n                else:",
                "self.respond_tentative(id, awaiting, outcome, None)\n                else:",
            ),
        ),
    ),
)
