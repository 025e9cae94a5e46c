"""A simulated cluster advances only when the test lets it, and equal tests have equal runs."""

import pytest

from creekdb import NotDone, OperationFailed, Unknown, UsageError
from creekdb.testing import SimulatedCluster, assert_converges
from tests.unit.testing.seat_types import book, owner_of, seats


def test_two_customers_of_one_seat_get_one_apology() -> None:
    cluster = SimulatedCluster(seats)
    assert repr(cluster.client(0)) == "<client of replica 0 of 'seats'>"
    cluster.partition([0], [1, 2])
    ann = cluster.client(0).weak(book, 9, "ann")
    bob = cluster.client(1).weak.book(9, customer="bob")
    assert (ann.tentative, bob.tentative) == (9, 9)
    assert cluster.state(0) == {}, "the booking is not committed"
    with pytest.raises(Unknown, match="no stable response within 10 simulated s"):
        _ = ann.final
    cluster.heal()

    assert bob.final == (9, False)
    with pytest.raises(OperationFailed) as raised:
        _ = ann.final
    assert (raised.value.error, raised.value.kind) == ("LookupError", "final")
    assert raised.value.changed
    assert raised.value.call is ann
    assert assert_converges(cluster) == {9: "bob"}
    assert "in book" in cluster.traces[0]
    with pytest.raises(UsageError, match="the simulation has ended"):
        cluster.client(0).weak.book(9, "ann")


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_replica_keeps_durable_calls(seed: int) -> None:
    cluster = SimulatedCluster(seats, seed=seed)
    assert cluster.client(0).weak.book(9, "ann").tentative == 9
    cluster.kill(0)
    with pytest.raises(NotDone, match="replica 0 is down"):
        cluster.client(0).weak.book(8, "ann")
    with pytest.raises(UsageError, match="replica 0 has no state"):
        cluster.state(0)
    cluster.start(0)
    cluster.advance(1)
    assert cluster.client(2).strong(owner_of, 9).stable == "ann"
    assert assert_converges(cluster) == {9: "ann"}


def test_equal_tests_have_equal_runs() -> None:
    def responses(seed: int) -> list[int]:
        cluster = SimulatedCluster(seats, seed=seed)
        call = cluster.client(1).weak.book(9, "ann")
        assert call.final.value == 9
        return [each.at_us for each in call]

    assert responses(1) == responses(1)
    assert responses(1) != responses(2)


def test_mistakes_are_reported_as_by_a_live_client() -> None:
    cluster = SimulatedCluster(seats)
    with pytest.raises(NotDone, match="must be an integer") as error:
        cluster.client().weak.book("nine", "ann")
    assert error.value.reason == "bad_arguments"
    with pytest.raises(NotDone, match="did you mean 'book'"):
        cluster.client().weak.bok(9, "ann")
    with pytest.raises(UsageError, match="unknown replica 3: replicas are 0 to 2"):
        cluster.kill(3)
    with pytest.raises(UsageError, match="replica 1 is in two groups"):
        cluster.partition([0, 1], [1, 2])
    with pytest.raises(UsageError, match="a weak read has one tentative response only"):
        _ = cluster.client().weak(owner_of, 9).final
