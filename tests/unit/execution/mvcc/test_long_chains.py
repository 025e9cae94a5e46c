"""A chain of many versions is not moved as a whole when its base changes or something skips it."""

from random import Random

from creekdb.execution.mvcc.entry import RequestEntry, Version, committed_position
from creekdb.execution.mvcc.version_chain import SuspectReads, VersionChain
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import NOOP, Request

COUNT = 1_500
TENTATIVE = 1_000_000


def test_a_long_chain_reads_like_the_list_of_its_additions() -> None:
    random = Random(7)
    chain = VersionChain("key", 0)
    doubts: SuspectReads = []
    order: list[tuple[RequestEntry, Version]] = []
    for event in range(1, COUNT + 1):
        entry = RequestEntry(
            Request(event, Dot(0, event), NOOP, strong=False), (TENTATIVE + 10 * event,)
        )
        order.append((entry, Version(entry, event, delta=True)))
        chain.insert(order[-1][1], doubts)
    settled = late = 0
    for index in range(COUNT + 1000):
        if not order:
            break
        choice = random.randrange(4)
        if choice == 0:  # one skips all that is tentative
            entry, version = order.pop(random.randrange(len(order)))
            old = chain.index_of(version)
            entry.position = committed_position(index)
            chain.reposition(old, doubts)
            order.insert(0, (entry, version))
        elif choice == 1:  # one comes late
            late += 1
            near = random.randrange(len(order))
            place = max(order[near][0].position[0], TENTATIVE)
            entry = RequestEntry(Request(1, Dot(1, late), NOOP, strong=False), (place, late))
            version = Version(entry, 1, delta=True)
            chain.insert(version, doubts)
            order.append((entry, version))
            order.sort(key=lambda each: each[0].position)
        if choice != 1:  # and the first one is settled
            entry, version = order.pop(0)
            settled += version.value
            entry.position = committed_position(index)
            chain.stabilise(version)
        assert chain.stable_value == settled
        if order:
            place = random.randrange(len(order))
            before = sum(version.value for _, version in order[:place])
            assert chain.read_at(order[place][0].position)[1] == settled + before

    assert len(chain.versions) == len(order) + chain.spare_count
