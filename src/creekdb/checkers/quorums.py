"""Votes that decide a batch, stated independently of the replicas."""

from collections.abc import Set as AbstractSet
from itertools import combinations

from creekdb.history import Ballot


def fast_quorum(electorate: tuple[int, ...], ballot: Ballot) -> tuple[int, ...]:
    """Return the fast quorum of a ballot: its owner, and as many others as a majority needs.

    The round of the ballot selects one of the lists of others, which are in lexicographic order.
    """
    others = [each for each in electorate if each != ballot.replica]
    lists = list(combinations(others, len(electorate) // 2))
    return ballot.replica, *lists[ballot.round % len(lists)]


def decides(
    electorate: tuple[int, ...],
    ballot: Ballot,
    second_votes: AbstractSet[int],
    first_votes: AbstractSet[int],
) -> bool:
    """True if these replicas' votes for one batch, in one ballot of one instance, decide it.

    A majority of second votes decides. So does the fast quorum of the ballot, if its owner cast a
    second vote, and each of the others a first or a second one.
    """
    if len(second_votes & set(electorate)) > len(electorate) // 2:
        return True
    if ballot.replica not in second_votes or ballot.replica not in electorate:
        return False
    return set(fast_quorum(electorate, ballot)) <= second_votes | first_votes
