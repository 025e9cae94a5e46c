"""Deliberate faults of what stands for a prefix of the order: images, checkpoints and snapshots."""

from tests.mutants.catalogue import (
    ANSWERS,
    BASIC,
    BROADCASTS,
    CAB,
    COMPACTION,
    GOSSIP,
    LEARNER,
    ORDERING,
    SETTLED,
    UNTOLD,
    Edit,
    Mutant,
)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "image_forgets_tentative",
        "an image holds every request that its checkpoint does not",
        130,
        (Edit(ORDERING, "yield from self._order.tentative()", "yield from ()"),),
    ),
    Mutant(
        "image_forgets_committed",
        "an image holds what was committed after its checkpoint",
        150,
        (
            Edit(
                ORDERING,
                ("yield from islice(\n            self._order.committed,"),
                "yield from islice((),",
            ),
        ),
    ),
    Mutant(
        "image_forgets_decisions",
        "an image holds the decisions after its checkpoint",
        400,
        (Edit(COMPACTION, "accepted, decided, requests)\n", "accepted, (), requests)\n"),),
    ),
    Mutant(
        "image_forgets_promise",
        "an image holds what the acceptor promised",
        600,
        (
            Edit(
                COMPACTION,
                "CheckpointRecord(checkpoint, acceptor.promised, accepted,",
                "CheckpointRecord(checkpoint, type(acceptor.promised)(0, 0), accepted,",
            ),
        ),
    ),
    Mutant(
        "image_forgets_accepted",
        "an image holds what the acceptor accepted",
        200,
        (
            Edit(
                COMPACTION,
                "CheckpointRecord(checkpoint, acceptor.promised, accepted,",
                "CheckpointRecord(checkpoint, acceptor.promised, (),",
            ),
        ),
    ),
    Mutant(
        "decisions_forgotten_before_settled",
        "a decision is kept until a checkpoint can stand for it",
        150,
        (
            Edit(
                LEARNER,
                "self.discard_below(min(everywhere, settled))",
                "self.discard_below(min(everywhere, self.delivered))",
            ),
        ),
    ),
    Mutant(
        "snapshot_not_told_to_gossip",
        "what a checkpoint covers is not delivered again",
        50,
        (Edit(BROADCASTS, "self.reliable_broadcast.mark_delivered(checkpoint.ids)", "pass"),),
    ),
    Mutant(
        "snapshot_wakes_nobody",
        "validity: what waited for a request that a checkpoint brings waits no longer",
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
        "checkpoint_one_instance_too_far",
        "a checkpoint holds what the instances below its own delivered: all of it",
        40,
        (
            Edit(
                SETTLED,
                "instance=self.instance,",
                "instance=self.instance + 1,",
            ),
        ),
    ),
    Mutant(
        "checkpoint_one_instance_too_near",
        "a checkpoint holds what the instances below its own delivered: no more",
        20,
        (
            Edit(
                SETTLED,
                "instance=self.instance,",
                "instance=max(0, self.instance - 1),",
            ),
        ),
    ),
    Mutant(
        "checkpoint_of_speculative_state",
        "a checkpoint holds the committed state, nothing tentative",
        300,
        (Edit(BASIC, "self._state.committed_state().items()", "self._state.items()"),),
    ),
    Mutant(
        "old_snapshot_installed",
        "committed only grows: a checkpoint of the past changes nothing",
        250,
        (
            Edit(
                BROADCASTS,
                "if checkpoint.instance <= self.cab.learner.delivered:\n            return\n",
                "if False:\n            return\n",
            ),
        ),
    ),
    Mutant(
        "snapshot_without_outcomes",
        "line 73: a strong operation gets its stable answer, from a snapshot if need be",
        200,
        (
            Edit(
                SETTLED,
                "outcomes=self._responses.retained.outcomes(),",
                "outcomes=(),",
            ),
        ),
    ),
    Mutant(
        "outcome_of_another_request",
        "the answer that comes with a snapshot is that of its request",
        150,
        (
            Edit(
                ANSWERS,
                "for id, outcome in checkpoint.outcomes:",
                "for (id, _), (_, outcome) in zip("
                "checkpoint.outcomes, reversed(checkpoint.outcomes)):",
            ),
        ),
    ),
    Mutant(
        "held_back_though_a_snapshot_brought_the_rest",
        "what waited for requests that a snapshot brought is delivered then",
        20,
        (
            Edit(
                GOSSIP,
                (
                    "max(forgotten, ids.last_contiguous(replica))\n"
                    "            self._deliver_next_of(replica)"
                ),
                "max(forgotten, ids.last_contiguous(replica))",
            ),
        ),
    ),
    Mutant(
        "blocked_and_silent_about_it",
        "who waits for a request that nobody keeps asks for its decision, and gets a snapshot",
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
        "outcomes_given_up_early",
        "an answer is kept for the replica that waits for it until that has executed it",
        60,
        (
            Edit(
                UNTOLD, "kept.outcomes[0][0] <= settled", "kept.outcomes[0][0] <= record_stable + 1"
            ),
        ),
    ),
    Mutant(
        "snapshot_answers_the_strong_tentatively",
        "what a snapshot tells of a strong operation is its stable answer",
        20,
        (
            Edit(
                ANSWERS,
                "kind = ResponseKind.STABLE if awaiting.strong else ResponseKind.TENTATIVE",
                "kind = ResponseKind.TENTATIVE",
            ),
        ),
    ),
)
