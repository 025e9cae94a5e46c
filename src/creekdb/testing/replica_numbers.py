"""Numbers of replicas that a test passes to a cluster."""

from collections.abc import Iterable

from creekdb.errors import UsageError


def check_replica(replica: int, replicas: range) -> None:
    """Raise `UsageError` unless the cluster has the replica."""
    if replica not in replicas:
        raise UsageError(f"unknown replica {replica}: replicas are 0 to {replicas[-1]}")


def checked_groups(groups: Iterable[Iterable[int]], replicas: range) -> list[tuple[int, ...]]:
    """Return the groups of a partition. Each replica is in at most one group."""
    checked = [tuple(group) for group in groups]
    grouped: set[int] = set()
    for replica in [each for group in checked for each in group]:
        check_replica(replica, replicas)
        if replica in grouped:
            raise UsageError(f"replica {replica} is in two groups; name each replica once")
        grouped.add(replica)
    return checked


def no_state_error(replica: int) -> UsageError:
    """Return the error for a replica that does not run."""
    return UsageError(f"replica {replica} has no state: it is down; start it first")
