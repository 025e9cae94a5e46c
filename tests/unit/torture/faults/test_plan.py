"""Plans of a torture."""

from creekdb.torture.faults.plan import DECK, DISK_LOSSES, GROUPS, FaultKind, plan_round

ROUNDS = range(20)


def test_a_seed_always_gives_the_same_plan() -> None:
    assert [plan_round(7, each) for each in ROUNDS] == [plan_round(7, each) for each in ROUNDS]
    assert plan_round(7, 0) != plan_round(8, 0)


def test_rounds_have_every_kind_of_fault() -> None:
    plans = [plan_round(7, each) for each in ROUNDS]

    kinds = {fault.kind for plan in plans for fault in plan.faults}
    assert kinds == set(FaultKind) - {FaultKind.LOST_DISK, FaultKind.ROLLED_BACK_DISK}
    assert {plan.disk_loss.kind for plan in plans if plan.disk_loss} == set(DISK_LOSSES)


def test_every_kind_occurs_before_the_deck_is_dealt_again() -> None:
    dealt = [fault.kind for number in ROUNDS for fault in plan_round(3, number).faults]

    assert sorted(dealt[: len(DECK)]) == sorted(DECK)
    assert sorted(dealt[len(DECK) : 2 * len(DECK)]) == sorted(DECK)


def test_twenty_minutes_plan_at_least_150_faults() -> None:
    rounds_at_half_speed = int(20 * 60 / (2 * plan_round(1, 0).duration_s))

    assert sum(len(plan_round(1, each).faults) for each in range(rounds_at_half_speed)) >= 150


def test_faults_start_within_their_round_and_in_order() -> None:
    for number in ROUNDS:
        plan = plan_round(5, number)
        times = [each.at_s for each in plan.faults]
        assert times == sorted(times)
        assert 0 <= times[0] <= times[-1] < plan.duration_s


def test_a_given_number_of_replicas_replaces_the_drawn_one() -> None:
    assert {plan_round(1, each, replicas=7).replicas for each in ROUNDS} == {7}
    assert {plan_round(1, each).replicas for each in ROUNDS} == {3, 5}


def test_every_kind_belongs_to_a_group() -> None:
    assert set(GROUPS) == set(FaultKind)
