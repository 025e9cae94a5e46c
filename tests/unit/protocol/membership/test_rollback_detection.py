"""Evidence about data directories: the verdict on a replica whose directory is an older copy."""

import msgspec
import pytest

from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.rollback_detection import (
    DECISIONS_SHOWN_MAX,
    DIRECTORIES_KEPT_MAX,
    EARLIER_STARTS_MAX,
    STARTS_KEPT_MAX,
    DirectoryHistory,
    PeerVerdict,
    ReportedState,
    RollbackDetector,
    SharedIds,
    Sighting,
    StateEvidence,
    add_start,
    find_shared_ids,
    lost_data,
    merge_sightings,
)
from creekdb.protocol.messages import Ballot
from creekdb.protocol.request import Batch
from creekdb.wire.messages import HELLO_FRAME_BYTES_MAX


def history(
    *states: tuple[int, int], first_nonce: int = 1, base: DirectoryHistory | None = None
) -> DirectoryHistory:
    """Return `base` with a start per state, which is the last event and the deliveries."""
    extended = base
    for nonce, (last_event, delivered) in enumerate(states, first_nonce):
        extended = add_start(extended, nonce, False, ReportedState(last_event, delivered))
    assert extended is not None
    return extended


def recovering(nonce: int) -> DirectoryHistory:
    return add_start(None, nonce, True, ReportedState(0, 0))


def sighting(
    shown: DirectoryHistory, last_event: int = 0, delivered: int = 0, replica: int = 2
) -> Sighting:
    return Sighting(replica, shown, ReportedState(last_event, delivered))


class StubView:
    """State of a replica, as a test sets it."""

    def __init__(self) -> None:
        self.reported: dict[int, ReportedState] = {}
        self.first_decision = 0
        self.decisions: tuple[Batch, ...] = ()
        self.removed: tuple[int, ...] = ()

    def own_state(self) -> ReportedState:
        return ReportedState(0, 0)

    def reported_state(self, replica: int) -> ReportedState:
        return self.reported.get(replica, ReportedState(0, 0))

    def last_decisions(self, limit: int) -> tuple[int, tuple[Batch, ...]]:
        return self.first_decision, self.decisions[-limit:]

    def removed_replicas(self) -> tuple[int, ...]:
        return self.removed


def detector(
    *sightings: Sighting, replica: int = 0, view: StubView | None = None
) -> RollbackDetector:
    own = history((0, 0), first_nonce=100 + replica)
    return RollbackDetector(replica, own, sightings, view or StubView())


COPY = history((0, 0), (10, 5))
CONTINUED = history((20, 9), first_nonce=50, base=COPY)
ROLLED_BACK = history((10, 5), first_nonce=60, base=COPY)


def test_a_start_that_follows_the_sighted_one_with_at_least_its_state_lost_nothing() -> None:
    assert lost_data(sighting(COPY, 20, 9), COPY) is None
    assert lost_data(sighting(COPY, 20, 9), CONTINUED) is None
    assert lost_data(sighting(COPY, 5, 2), CONTINUED) is None


@pytest.mark.parametrize(("last_event", "delivered"), [(21, 9), (20, 10)])
def test_a_journal_that_held_less_than_was_reported_lost_data(
    last_event: int, delivered: int
) -> None:
    loss = lost_data(sighting(COPY, last_event, delivered), CONTINUED)

    assert loss is not None
    assert f"had reported {last_event} calls, {delivered} decisions and ballot 0@0" in loss


def test_a_journal_without_a_reported_promise_lost_data() -> None:
    reported = ReportedState(10, 5, Ballot(7, 2))
    loss = lost_data(Sighting(2, COPY, reported), CONTINUED)
    assert loss is not None
    assert loss.endswith("had reported 10 calls, 5 decisions and ballot 7@2")
    promised = add_start(COPY, 50, False, reported)
    assert lost_data(Sighting(2, COPY, reported), promised) is None


def test_a_history_without_the_sighted_start_lost_data_whatever_its_state_is() -> None:
    later = history((1000, 1000), first_nonce=70, base=ROLLED_BACK)

    for shown in (COPY, ROLLED_BACK, later):
        loss = lost_data(sighting(CONTINUED, 20, 9), shown)
        assert loss == "the data directory does not contain start 3 of the replica"


@pytest.mark.parametrize("starts", [1, STARTS_KEPT_MAX, STARTS_KEPT_MAX + 8, EARLIER_STARTS_MAX])
def test_a_copy_does_not_hide_behind_its_own_starts(starts: int) -> None:
    restarted = history(*[(20, 9)] * starts, first_nonce=70, base=COPY)

    assert lost_data(sighting(CONTINUED, 20, 9), restarted) is not None
    assert lost_data(sighting(COPY, 20, 9), restarted) is None
    assert len(restarted.earlier) == 2 * max(0, len(COPY.starts) + starts - STARTS_KEPT_MAX)


def test_a_history_of_the_first_release_has_no_digests_of_earlier_starts() -> None:
    stored = msgspec.json.decode(b"[1,[[40,7,false,[20,9,[0,0]]]]]", type=DirectoryHistory)
    resumed = add_start(stored, 8, False, ReportedState(20, 9))

    assert lost_data(sighting(CONTINUED, 20, 9), stored) is None
    assert lost_data(sighting(stored, 20, 9), resumed) is None
    assert resumed.earlier == b""


def test_digests_of_starts_are_readable_after_they_were_stored() -> None:
    restarted = history(*[(20, 9)] * (STARTS_KEPT_MAX + 8), first_nonce=70, base=COPY)

    for codec in (msgspec.json, msgspec.msgpack):
        assert codec.decode(codec.encode(restarted), type=DirectoryHistory) == restarted


def test_later_starts_do_not_hide_lost_data() -> None:
    resumed = history((10, 5), (30, 12), first_nonce=60, base=COPY)

    loss = lost_data(sighting(COPY, 20, 9), resumed)

    assert loss is not None
    assert loss.startswith("at start 3 the journal held 10 calls, 5 decisions")


def test_an_empty_journal_continues_every_sighting() -> None:
    erased = add_start(COPY, 80, True, ReportedState(0, 0))

    assert lost_data(sighting(CONTINUED, 20, 9), recovering(80)) is None
    assert lost_data(sighting(COPY, 20, 9), erased) is None
    assert (
        lost_data(Sighting(2, recovering(80), None), history((0, 0), base=recovering(80))) is None
    )


def test_an_unknown_directory_must_hold_what_was_reported() -> None:
    assert lost_data(sighting(CONTINUED, 20, 9), history((20, 9), first_nonce=80)) is None
    assert lost_data(sighting(CONTINUED, 20, 9), history((19, 9), first_nonce=80)) is not None


def test_a_directory_that_was_replaced_must_not_return() -> None:
    guard = detector(sighting(COPY, 10, 5))
    guard.record(2, StateEvidence(recovering(80)))

    verdict = guard.judge(2, StateEvidence(history((99, 99), first_nonce=90, base=COPY)))

    assert verdict == PeerVerdict(peer_loss="the data directory was used before and replaced since")


def test_the_replica_that_lost_data_stops_and_the_other_rejects_it() -> None:
    healthy, lost = detector(sighting(CONTINUED, 20, 9)), detector(replica=2)
    lost.history = ROLLED_BACK

    assert healthy.judge(2, lost.evidence()).peer_loss is not None
    assert healthy.judge(2, lost.evidence()).own_loss is None
    assert lost.judge(0, healthy.evidence()).own_loss is not None


def test_sightings_include_later_reports() -> None:
    view = StubView()
    guard = detector(sighting(COPY, 10, 5), view=view)
    guard.record(1, StateEvidence(recovering(80)))
    view.reported = {1: ReportedState(7, 3), 2: ReportedState(30, 2)}

    assert [each.state for each in guard.sightings()] == [ReportedState(30, 5), ReportedState(7, 3)]


def test_reports_from_before_the_loss_of_a_disk_are_no_evidence() -> None:
    view = StubView()
    view.reported = {2: ReportedState(10, 5)}
    guard = detector(sighting(COPY, 10, 5), view=view)
    guard.record(2, StateEvidence(recovering(80)))
    view.reported = {2: ReportedState(12, 5)}

    assert guard.sightings()[0].state is None
    joined = history((4, 4), first_nonce=81, base=recovering(80))
    assert guard.judge(2, StateEvidence(joined)) == PeerVerdict()


def test_sightings_of_other_replicas_are_adopted_if_they_are_later() -> None:
    guard = detector(sighting(COPY, 10, 5))
    third = sighting(history((0, 0), first_nonce=30), 4, 4, replica=3)

    assert guard.record(
        1, StateEvidence(history((0, 0), first_nonce=40), (sighting(CONTINUED, 25, 9), third))
    )
    assert guard.judge(2, StateEvidence(ROLLED_BACK)).peer_loss is not None
    assert third in guard.sightings()
    assert not guard.record(
        1, StateEvidence(history((0, 0), first_nonce=40), (sighting(COPY, 10, 5),))
    )


def test_a_replica_adopts_no_sighting_of_itself() -> None:
    guard = detector(replica=0)

    guard.record(1, StateEvidence(COPY, (sighting(CONTINUED, replica=0), sighting(CONTINUED))))

    assert [each.replica for each in guard.sightings()] == [1, 2]


def test_of_two_sightings_the_later_one_is_kept() -> None:
    older, newer = sighting(COPY, 10, 5), sighting(CONTINUED, 25, 9)
    replacing = Sighting(2, recovering(80), None, (COPY.directory,))

    assert merge_sightings(older, newer) == newer
    assert merge_sightings(newer, older) == newer
    assert merge_sightings(older, sighting(COPY, 8, 7)) == sighting(COPY, 10, 7)
    assert merge_sightings(newer, sighting(ROLLED_BACK, 99, 99)) == newer
    assert merge_sightings(newer, replacing) == replacing
    assert merge_sightings(replacing, newer) == replacing
    assert merge_sightings(replacing, replacing) == replacing


def test_requests_of_two_starts_with_the_same_identifiers_conflict() -> None:
    ours, theirs = sighting(CONTINUED, 25, 9), sighting(ROLLED_BACK, 14, 9)

    assert find_shared_ids(ours, theirs) == SharedIds(2, 11, 14)
    assert find_shared_ids(theirs, ours) == SharedIds(2, 11, 14)
    verdict = detector(ours).judge(1, StateEvidence(history((0, 0), first_nonce=40), (theirs,)))
    assert verdict.conflicting_ids == SharedIds(2, 11, 14)


@pytest.mark.parametrize(
    "theirs",
    [
        sighting(ROLLED_BACK, 10, 30),  # issued no request since the rollback
        sighting(COPY, 10, 5),  # merely older
        Sighting(2, recovering(80), None),
        sighting(history((99, 99), first_nonce=90), 99, 99),
    ],
)
def test_sightings_without_reused_identifiers_do_not_conflict(theirs: Sighting) -> None:
    assert find_shared_ids(sighting(CONTINUED, 25, 9), theirs) is None
    assert find_shared_ids(theirs, sighting(CONTINUED, 25, 9)) is None


def test_starts_beyond_the_limit_of_one_history_are_not_compared() -> None:
    forks = [
        history(*[(10 + number, 0) for number in range(count)], first_nonce=nonce, base=CONTINUED)
        for count, nonce in ((STARTS_KEPT_MAX, 1000), (1, 2000))
    ]
    assert forks[0].starts[0].number == 4
    assert find_shared_ids(sighting(forks[0], 90, 0), sighting(forks[1], 12, 0)) == SharedIds(
        2, 11, 12
    )


def test_different_decisions_of_one_instance_conflict() -> None:
    view = StubView()
    view.first_decision, view.decisions = 4, ((Dot(0, 1),), (Dot(0, 2),))
    other_view = StubView()
    other_view.first_decision, other_view.decisions = 5, ((Dot(1, 2),), (Dot(1, 3),))
    ours, theirs = detector(view=view), detector(replica=1, view=other_view)

    assert ours.judge(1, theirs.evidence()).conflicting_instance == 5
    other_view.decisions = ((Dot(0, 2),), (Dot(1, 3),))
    assert ours.judge(1, theirs.evidence()) == PeerVerdict()
    assert ours.judge(1, detector(replica=1).evidence()) == PeerVerdict()


def test_histories_and_sightings_are_bounded() -> None:
    long = history(*[(0, 0)] * (STARTS_KEPT_MAX + 2))
    assert [long.starts[0].number, long.last.number] == [3, STARTS_KEPT_MAX + 2]
    assert lost_data(sighting(history((0, 0))), long) is None
    longer = history(*[(0, 0)] * (EARLIER_STARTS_MAX + 2), base=long)
    assert len(longer.earlier) == 2 * EARLIER_STARTS_MAX
    forgotten = msgspec.structs.replace(long.starts[0], number=1, nonce=1000)
    assert not longer.contradicts(forgotten)
    assert longer.contradicts(msgspec.structs.replace(forgotten, number=100))
    guard = detector()
    for nonce in range(DIRECTORIES_KEPT_MAX + 5):
        guard.record(2, StateEvidence(recovering(1000 + nonce)))
    assert len(guard.sightings()[0].replaced) == DIRECTORIES_KEPT_MAX


def test_the_evidence_about_nine_replicas_fits_beside_the_operations_in_a_hello() -> None:
    state = ReportedState(2**40, 2**40, Ballot(2**30, 8))
    long = add_start(None, 2**62, False, state)
    for number in range(EARLIER_STARTS_MAX + STARTS_KEPT_MAX):
        long = add_start(long, 2**62 - number, False, state)
    sightings = tuple(Sighting(replica, long, state) for replica in range(8))
    evidence = StateEvidence(long, sightings, 2**40, (2**32 - 1,) * DECISIONS_SHOWN_MAX)

    assert len(msgspec.msgpack.encode(evidence)) < HELLO_FRAME_BYTES_MAX // 2


def test_sightings_of_removed_replicas_are_dropped_and_not_adopted_again() -> None:
    view = StubView()
    guard = detector(sighting(COPY, replica=2), sighting(COPY, replica=3), view=view)
    assert [each.replica for each in guard.evidence().sightings] == [2, 3]

    view.removed = (2, 4)
    assert [each.replica for each in guard.evidence().sightings] == [3]
    theirs = StateEvidence(COPY, (sighting(CONTINUED, replica=2), sighting(COPY, replica=4)))
    guard.record(3, theirs)
    assert not guard.record(3, theirs), "no sighting is new"
    assert [each.replica for each in guard.sightings()] == [3]


def test_a_history_without_starts_is_malformed() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode((1, ())), type=DirectoryHistory)
