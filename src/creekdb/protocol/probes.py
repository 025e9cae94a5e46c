"""Probes: counters on branches that are rarely taken.

A branch that no simulation reaches is untested. The fuzzer therefore fails if a probe of this list
did not fire.
"""

import enum


class Probe(enum.Enum):
    """Rarely taken branch. The value describes it."""

    __hash__ = object.__hash__  # members are singletons, and this hash is not written in Python

    REQUEST_DUPLICATED = "a request was received a second time"
    REQUEST_HELD_BACK = "a request waited for an earlier request of the same replica"
    REQUEST_AHEAD_OF_CONTEXT = "a strong request waited for its causal context"
    REQUEST_TOO_FAR_AHEAD = "a cast request was too far ahead to be retained"
    CAST_SKIPPED = "a cast skipped a replica that is too far behind"
    REQUEST_PULLED = "anti-entropy delivered a request"
    PULL_CONTINUED = "a pull needed more than one response"
    PULL_OF_DISCARDED = "a peer pulled a request that has been discarded"
    REQUESTS_DISCARDED = "requests that every replica has were discarded"
    CLOCK_AHEAD = "a request came from a clock that runs far ahead"

    SUSPECTED_WRONGLY = "a suspected replica was alive"
    LEADER_TRUSTED_INDIRECTLY = "a majority's leader was trusted without a direct heartbeat"

    CAMPAIGN = "a replica started a ballot"
    CAMPAIGN_LOST = "a ballot lost against a higher one"
    PREPARE_REPEATED = "a prepare was repeated"
    ACCEPT_REPEATED = "an accept was repeated"
    BALLOT_STALE = "a prepare or accept had a stale ballot"
    VALUE_RECOVERED = "a new leader proposed a value of an earlier ballot"
    DECIDED_BEFORE_LEADING = "a new leader skipped a decided instance after an undecided one"
    GAP_FILLED = "a new leader filled a gap with an empty batch"
    STUCK_INSTANCE = "a leader abandoned a batch that no acceptor could vote for"
    DECISIONS_UNREACHABLE = "a leader abandoned decisions that only an unreachable replica has"
    WINDOW_FULL = "a strong request waited for a free instance of the pipeline"
    DECIDED_IN_PROMISE = "a promise showed a new leader decisions that it missed"

    VOTE_DEFERRED = "a vote waited for its predicate"
    VOTE_OVERTAKEN = "a deferred vote was void when its predicate held"
    PROPOSAL_DEFERRED = "a strong request waited for its causal context before it was proposed"
    PROPOSAL_HELD = "a leader held a strong request until its deadline"
    PROPOSAL_OVERTAKEN = "a held strong request was overtaken by one with a lower timestamp"
    DECIDED_WHILE_HELD = "a held strong request was delivered, as another leader had proposed it"
    CONTEXT_EXTENDED = "a leader extended the causal context of a strong request"
    CUT_COMMITTED = "a cut committed a weak request that no causal context has"
    FIRST_VOTE_CAST = "an acceptor voted before the leader's proposal arrived"
    FIRST_VOTE_MISSED = "a first vote differed from the leader's proposal"
    FAST_DECISION = "a fast quorum decided a batch before a majority of second votes"
    FIRST_VOTE_RECOVERED = "a leader proposed a batch again that only first votes reported"
    FAST_QUORUM_CHANGED = "a leader started a ballot that names another fast quorum"
    FAST_PATH_PAUSED = "too few first votes predicted the leader's proposal"
    DELIVERY_DEFERRED = "a decided request waited for its predicate"
    DECIDED_TWICE = "a request was decided in two instances"
    DECIDED_OUT_OF_ORDER = "an instance was decided before an earlier one"
    VOTES_BEFORE_VALUE = "a majority voted before the proposal arrived"
    INSTANCE_TOO_FAR_AHEAD = "a vote was too far ahead to be retained"
    CAUGHT_UP = "a peer sent decisions"
    DECISIONS_DISCARDED = "decisions that are no longer needed were discarded"
    SNAPSHOT_SENT = "a snapshot was sent to a peer that is too far behind"
    SNAPSHOT_INSTALLED = "a snapshot replaced a prefix"
    RESPONSE_FROM_SNAPSHOT = "a response to a client came from a snapshot"
    JOURNAL_COMPACTED = "the journal was compacted"

    MEMBERS_CHANGED = "a replica applied a membership change"
    CHANGE_REJECTED = "a membership change was rejected in favour of an earlier one"
    JOINED = "a new replica became a member"
    REMOVED = "a replica learned of its own removal"
    MEMBERS_LEARNED_FROM_UNKNOWN = "a lagging replica learned the members from an unknown member"
    REMOVED_MEMBER_CAUGHT_UP = "a removed replica requested the decisions that it missed"
    HANDED_OVER = "a removed replica handed over requests"

    RECOVERED = "a replica recovered from its disk"
    RECOVERED_CHECKPOINT = "a replica recovered from a compacted journal"
    JOINED_AFTER_DISK_LOSS = "a replica with an empty disk joined members that had state"
    NOOP_ISSUED = "a strong no-op stabilised weak requests"

    ROLLED_BACK = "a request was rolled back"
    REEXECUTED = "a request was executed again"
    EXECUTION_OVERTAKEN = "an execution was void when it completed"
    EXECUTION_DELAYED = "an execution waited for a write that was expected before it"
    STABLE_FROM_COMMIT = "a stable response was sent when its request was committed"
    STABLE_FROM_EXECUTION = "a stable response was sent when its request was executed"
    STABLE_BEFORE_PREDECESSOR = "a stable response was sent before a disjoint predecessor's"
    TENTATIVE_AGAIN = "a strong request had another tentative response"
    LOCAL_READ = "a weak read-only operation was executed without a message"
    RUN_MERGED = "old requests were merged into a run"
    RUN_SPLIT = "a merged run was split to execute its requests again"
    DECIDED_UNPROPOSED = "a request was decided without optimistic delivery here"
    DECIDED_OUT_OF_PROPOSED_ORDER = "a request was decided before one that was proposed earlier"
    APOLOGY = "the final response of a weak request differed from the tentative one"


class Probes:
    def __init__(self) -> None:
        self.counts: dict[Probe, int] = {}

    def hit(self, probe: Probe) -> None:
        self.counts[probe] = self.counts.get(probe, 0) + 1
