"""Long chains: stabilisation and moves to the front do not shift all versions."""

from random import Random

from creekdb.execution.mvcc.entry import RequestEntry, Version, committed_position
from creekdb.execution.mvcc.version_chain import SuspectReads, VersionChain
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import NOOP, Request

COUNT = 1_500
TENTATIVE = 1_000_000


def test_a_long_chain_equals_the_sum_of_its_additions() -> None:
    random = Random(7)
    chain = VersionChain("key", 0)
    suspects: SuspectReads = []
    order: list[tuple[RequestEntry, Version]] = []
    for event in range(1, COUNT + 1):
        entry = RequestEntry(
            Request(event, Dot(0, event), NOOP, strong=False), (TENTATIVE + 10 * event,)
        )
        order.append((entry, Version(entry, event, is_delta=True)))
        chain.insert(order[-1][1], suspects)
    stable_sum = late = 0
    for number in range(COUNT + 1000):
        if not order:
            break
        choice = random.randrange(4)
        if choice == 0:  # a commit before all tentative requests
            entry, version = order.pop(random.randrange(len(order)))
            old_index = chain.index_of(version)
            entry.position = committed_position(number)
            chain.reposition(old_index, suspects)
            order.insert(0, (entry, version))
        elif choice == 1:  # a late request
            late += 1
            near = random.randrange(len(order))
            position = max(order[near][0].position[0], TENTATIVE)
            entry = RequestEntry(Request(1, Dot(1, late), NOOP, strong=False), (position, late))
            version = Version(entry, 1, is_delta=True)
            chain.insert(version, suspects)
            order.append((entry, version))
            order.sort(key=lambda each: each[0].position)
        if choice != 1:  # the first request becomes stable
            entry, version = order.pop(0)
            stable_sum += version.value
            entry.position = committed_position(number)
            chain.stabilise(version)
        assert chain.stable_value == stable_sum
        if order:
            index = random.randrange(len(order))
            before = sum(version.value for _, version in order[:index])
            assert chain.read_at(order[index][0].position)[1] == stable_sum + before

    assert len(chain.versions) == len(order) + chain.spare_count
