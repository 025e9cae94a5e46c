"""Mutants of the fast path: first votes, their records, fast decisions and recovery."""

from tests.mutants.catalogue import ACCEPTOR, CAB, LEADER, LEARNER, MutantWithTests, tested

FAST_PATH = "protocol/consensus/fast_path.py"
FAST_PATH_TESTS = "tests/unit/protocol/consensus/test_fast_path.py"
FAST_QUORUMS = "protocol/consensus/fast_quorums.py"
FAST_QUORUM_TESTS = "tests/unit/protocol/consensus/test_fast_quorums.py"
SIMULATED_TESTS = "tests/simulation/test_fast_quorums.py"
ACCEPTOR_TESTS = "tests/unit/protocol/consensus/test_acceptor.py"
DISK_LOSS_RECOVERY = "protocol/membership/disk_loss_recovery.py"
DISK_LOSS_TESTS = "tests/unit/protocol/membership/test_disk_loss_recovery.py"
MESSAGES = "protocol/messages.py"
PAXOS_TESTS = "tests/unit/checkers/broadcast/test_paxos_safety.py"
PAXOS_SAFETY = "checkers/broadcast/paxos_safety.py"
EXPLORATION_TESTS = "tests/simulation/test_fast_path.py"

MUTANTS: tuple[MutantWithTests, ...] = (
    # --- found by the exploration of the real replicas --------------------------------------------
    tested(
        "first_vote_leaves_without_its_record",
        "a first vote is durable before it is sent",
        EXPLORATION_TESTS,
        ACCEPTOR,
        "self._record_vote(AcceptedValue(~instance, ballot, batch))",
        "self.accepted[~instance] = AcceptedValue(~instance, ballot, batch)",
    ),
    tested(
        "fast_quorum_lacks_a_member",
        "the whole fast quorum decides",
        EXPLORATION_TESTS,
        LEARNER,
        "for member in fast_quorum(self._shared.settings.voters, tally.ballot):",
        "for member in fast_quorum(self._shared.settings.voters, tally.ballot)[:-1]:",
    ),
    tested(
        "fast_quorum_does_not_depend_on_the_round",
        "the ballot names its fast quorum, by its round",
        FAST_QUORUM_TESTS,
        FAST_QUORUMS,
        "rank = ballot.round % comb(len(others), missing)",
        "rank = 0",
    ),
    tested(
        "majority_counts_first_votes",
        "a first vote counts in the fast quorum only",
        EXPLORATION_TESTS,
        LEARNER,
        "        tally.first_votes.setdefault(voter, batch)\n",
        "        tally.first_votes.setdefault(voter, batch)\n        tally.voters.add(voter)\n",
    ),
    tested(
        "fast_decision_ignores_the_batch_of_first_votes",
        "the first votes of a fast quorum are for the batch of the leader",
        EXPLORATION_TESTS,
        LEARNER,
        "tally.first_votes.get(member) != batch",
        "member not in tally.first_votes",
    ),
    tested(
        "promise_omits_first_votes",
        "a promise reports first votes",
        EXPLORATION_TESTS,
        ACCEPTOR,
        "if max(each, ~each) >= first",
        "if each >= first",
    ),
    tested(
        "new_leader_drops_first_votes",
        "a new leader proposes the batches of reported first votes again",
        EXPLORATION_TESTS,
        LEADER,
        "instance = value.true_instance",
        "instance = value.instance",
    ),
    tested(
        "first_vote_below_promise",
        "no first vote is cast below a promised ballot",
        EXPLORATION_TESTS,
        ACCEPTOR,
        "        if ballot != self.promised:\n            return False\n        for key in",
        "        for key in",
    ),
    # --- found by tests ---------------------------------------------------------------------------
    tested(
        "first_votes_outrank_second_votes",
        "a new leader prefers the entry of the old leader to first votes in the same ballot",
        ACCEPTOR_TESTS.replace("acceptor", "leader"),
        MESSAGES,
        "return self.ballot, self.instance >= 0",
        "return self.ballot, self.instance < 0",
    ),
    tested(
        "second_first_vote_in_one_ballot",
        "an acceptor casts one first vote per ballot and instance",
        ACCEPTOR_TESTS,
        ACCEPTOR,
        "for key in (instance, ~instance):",
        "for key in (instance,):",
    ),
    tested(
        "first_vote_after_a_second_vote",
        "an acceptor casts no first vote after its second vote in the same ballot",
        ACCEPTOR_TESTS,
        ACCEPTOR,
        "for key in (instance, ~instance):",
        "for key in (~instance,):",
    ),
    tested(
        "first_votes_before_the_ballot_is_open",
        "first votes are cast only in a ballot whose leader has found the instance free",
        FAST_PATH_TESTS,
        FAST_PATH,
        "self.is_active = opens and self._shared.index in quorum[1:]",
        "self.is_active = self._shared.index in quorum[1:]",
    ),
    tested(
        "first_votes_of_other_replicas",
        "only the fast quorum of the ballot casts first votes",
        FAST_PATH_TESTS,
        FAST_PATH,
        "self.is_active = opens and self._shared.index in quorum[1:]",
        "self.is_active = opens",
    ),
    tested(
        "prediction_ignores_outstanding_votes",
        "a first vote follows those whose requests the leader has not proposed yet",
        FAST_PATH_TESTS,
        FAST_PATH,
        "instance = self._last_entry + 1 + len(self._predicted)",
        "instance = self._last_entry + 1",
    ),
    tested(
        "fast_path_never_pauses",
        "a leader pauses the fast path while too few predictions are correct",
        FAST_QUORUM_TESTS,
        FAST_QUORUMS,
        "        self._pause = self._next_pause\n",
        "        self._pause = 0\n",
    ),
    tested(
        "failed_member_stays_in_the_fast_quorum",
        "a leader that suspects a member of its fast quorum chooses another one",
        SIMULATED_TESTS,
        CAB,
        "            and self._fast_path.must_change(self.leader.ballot)\n",
        "            and False\n",
    ),
    tested(
        "late_member_stays_in_the_fast_quorum",
        "a member that was absent from most of a low sample is replaced",
        SIMULATED_TESTS,
        FAST_QUORUMS,
        "        self._late.update(late)\n",
        "",
    ),
    tested(
        "fast_quorum_is_changed_again_and_again",
        "the time between two changes of the fast quorum grows",
        FAST_QUORUM_TESTS,
        FAST_QUORUMS,
        "self._change_factor = min(2 * self._change_factor, CHANGE_FACTOR_MAX)",
        "self._change_factor = 0",
    ),
    tested(
        "fast_quorum_is_changed_for_another_bad_one",
        "a leader starts no ballot without a better fast quorum",
        FAST_QUORUM_TESTS,
        FAST_QUORUMS,
        "        if self._find_good_quorum() is None:\n            return False\n",
        "",
    ),
    tested(
        "fast_quorum_ignores_delays",
        "a fast quorum has the members with the shortest delays",
        FAST_QUORUM_TESTS,
        FAST_QUORUMS,
        "inf if delay_us is None else delay_us, member",
        "inf, member",
    ),
    tested(
        "first_predictions_are_judged",
        "decisions are judged only after followers can predict them",
        FAST_QUORUM_TESTS,
        FAST_QUORUMS,
        "elif instance >= self._judged_from:",
        "elif instance >= 0:",
    ),
    tested(
        "requests_that_waited_for_the_window_are_proposed_one_by_one",
        "requests that waited for the window are proposed together",
        ACCEPTOR_TESTS.replace("acceptor", "leader"),
        LEADER,
        "            self._must_batch = True\n",
        "",
    ),
    tested(
        "prediction_counts_requests_that_the_leader_lacks",
        "a request that the leader has overtaken does not shift later predictions",
        FAST_PATH_TESTS,
        FAST_PATH,
        "            first = next(iter(self._predicted))\n",
        "            first = id\n",
    ),
    tested(
        "lost_disk_forgets_first_votes",
        "a replica that lost its disk restores the reported first votes",
        DISK_LOSS_TESTS,
        DISK_LOSS_RECOVERY,
        "is_undecided = value.true_instance >= undecided",
        "is_undecided = value.instance >= undecided",
    ),
    # --- the checker ------------------------------------------------------------------------------
    tested(
        "checker_accepts_first_votes_in_used_instances",
        "a first vote needs promises that report no vote in its instance",
        PAXOS_TESTS,
        PAXOS_SAFETY,
        "if each.first <= instance not in each.accepted]",
        "if each.first <= instance]",
    ),
    tested(
        "checker_accepts_two_first_votes",
        "an acceptor casts one first vote per ballot and instance",
        PAXOS_TESTS,
        PAXOS_SAFETY,
        "for earlier in (vote.instance, ~vote.instance):",
        "for earlier in (vote.instance,):",
    ),
    tested(
        "checker_lets_anyone_cast_first_votes",
        "only the fast quorum of the ballot casts first votes",
        PAXOS_TESTS,
        PAXOS_SAFETY,
        "if self.replica not in fast_quorum(electorate, vote.ballot)[1:]:",
        "if self.replica not in electorate:",
    ),
    tested(
        "checker_counts_first_votes_in_any_majority",
        "a first vote counts in the fast quorum only",
        PAXOS_TESTS,
        "checkers/quorums.py",
        "if len(second_votes & set(electorate)) > len(electorate) // 2:",
        "if len((second_votes | first_votes) & set(electorate)) > len(electorate) // 2:",
    ),
    tested(
        "schemes_without_contexts_must_change_their_fast_quorum",
        "a campaign requires only the probes that its scheme can reach",
        "tests/unit/schemes/test_registry.py",
        "schemes/core/spec.py",
        "    Probe.FAST_QUORUM_CHANGED,\n",
        "",
    ),
)
