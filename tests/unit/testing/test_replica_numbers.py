import pytest

from creekdb import UsageError
from creekdb.testing.replica_numbers import check_replica, checked_groups


def test_groups_are_disjoint_sets_of_replicas() -> None:
    assert checked_groups([[0], iter((2, 1))], range(4)) == [(0,), (2, 1)]
    with pytest.raises(UsageError, match="unknown replica 9: replicas are 0 to 2"):
        checked_groups([[0], [9]], range(3))
    for groups in ([[0, 1], [1, 2]], [[0, 0]]):
        with pytest.raises(UsageError, match=r"replica \d is in two groups"):
            checked_groups(groups, range(3))


@pytest.mark.parametrize("replica", [-1, 3])
def test_a_number_outside_the_cluster_is_rejected(replica: int) -> None:
    check_replica(2, range(3))
    with pytest.raises(UsageError, match=f"unknown replica {replica}: replicas are 0 to 2"):
        check_replica(replica, range(3))
