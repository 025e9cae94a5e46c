"""Probes: counters on branches that are rarely taken.

A branch that no simulation ever reached is a hole in the test, not a success: the fuzzer fails when
a probe of this list did not fire.
"""

import enum


class Probe(enum.Enum):
    """Each probe's value says what happened."""

    __hash__ = object.__hash__  # there is only one of each, and this one is not written in Python

    REQUEST_TWICE = "a request arrived that was here already"
    REQUEST_HELD_BACK = "a request waited for an earlier one of the same replica"
    REQUEST_AHEAD_OF_CONTEXT = "a strong request waited for its causal context"
    REQUEST_TOO_FAR = "a request was cast too far ahead to keep"
    CAST_SPARED = "a replica was too far behind to be cast to"
    REQUEST_PULLED = "anti-entropy brought a request"
    PULL_CONTINUED = "one answer to a pull was not enough"
    PULL_OUTDATED = "a peer pulled what is no longer kept"
    REQUESTS_FORGOTTEN = "requests that every replica has were forgotten"
    CLOCK_AHEAD = "a request from a clock far ahead"

    SUSPECTED_WRONGLY = "a suspected replica was alive"
    LEADER_FOLLOWED_UNHEARD = "a leader was trusted on the word of others"

    CAMPAIGN = "a replica started a ballot"
    CAMPAIGN_OUTBID = "a ballot lost against a higher one"
    PREPARE_AGAIN = "a prepare was repeated"
    ACCEPT_AGAIN = "an accept was repeated"
    BALLOT_FROM_THE_PAST = "a prepare or accept came too late"
    VALUE_RECOVERED = "a new leader proposed what an old one had"
    DECIDED_BEFORE_LEADING = "a new leader found an instance decided after an undecided one"
    GAP_FILLED = "a new leader closed a gap with an empty batch"
    STUCK_INSTANCE = "a leader gave up on a batch that nobody could vote for"
    UNINFORMED = "a leader gave up on decisions that only a silent replica knows"
    WINDOW_FULL = "a strong request waited for a place in the pipeline"
    PROMISE_TELLS_DECIDED = "a new leader learned that older instances are decided"

    VOTE_DEFERRED = "a vote waited for its predicate"
    VOTE_OVERTAKEN = "a deferred vote was void by the time its predicate held"
    OFFER_DEFERRED = "a strong request waited for its causal context before it was proposed"
    DELIVERY_DEFERRED = "a decided request waited for its predicate"
    DELIVERED_TWICE_AVOIDED = "a request was decided in two instances"
    DECIDED_OUT_OF_ORDER = "an instance was decided before an earlier one"
    VOTES_BEFORE_VALUE = "a majority voted before the proposal arrived"
    INSTANCE_TOO_FAR = "a vote was too far ahead to keep"
    CAUGHT_UP = "decisions came from a peer"
    DECISIONS_FORGOTTEN = "decisions that are no longer needed were forgotten"
    SNAPSHOT_SENT = "a peer was too far behind to be told each step"
    SNAPSHOT_INSTALLED = "a snapshot took the place of a prefix"
    ANSWERED_FROM_SNAPSHOT = "a client was answered from a snapshot"
    IMAGE_WRITTEN = "the journal was compacted"

    MEMBERS_CHANGED = "a replica learned that the members were changed"
    CHANGE_REFUSED = "a change of members came after another one"
    JOINED = "a new replica became a member"
    REMOVED = "a replica learned that it was removed"
    LATER_MEMBER_HEARD = "a replica that was away learned of the members from one it did not know"
    FORMER_MEMBER_TOLD = "a replica that was removed asked what it had missed"
    TAKEN_FROM_FORMER = "requests of one that was removed were taken from it"

    RECOVERED = "a replica recovered from its disk"
    RECOVERED_IMAGE = "a replica recovered from a compacted journal"
    ENTERED_ANEW = "a replica that began with nothing took part with others that had not"
    NOOP_ISSUED = "a strong no-op stabilised weak requests"

    ROLLED_BACK = "a request was rolled back"
    REEXECUTED = "a request was executed again"
    EXECUTION_OVERTAKEN = "an execution was void by the time it completed"
    STABLE_FROM_COMMIT = "a stable answer left when its request was committed"
    STABLE_FROM_EXECUTION = "a stable answer left when its request was executed"
    TENTATIVE_AGAIN = "a strong request got another tentative answer"
    ANSWERED_LOCALLY = "a weak operation that only reads was answered without a message"
    STRETCH_MERGED = "old requests were merged into a stretch"
    STRETCH_TAKEN_APART = "the requests of a stretch had to be executed again"
    DECIDED_UNPROPOSED = "a request was decided that was not optimistically delivered here"
    DECIDED_OTHERWISE = "a request was decided before one that was proposed earlier"
    APOLOGY = "a weak request ended otherwise than its client was told"


class Probes:
    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: dict[Probe, int] = {}

    def hit(self, probe: Probe) -> None:
        self.counts[probe] = self.counts.get(probe, 0) + 1
