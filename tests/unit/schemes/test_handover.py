"""One that was removed while it issued something: nothing that it answered is lost."""

from creekdb.protocol.effects import ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import PullResponse
from tests.unit.schemes.bench import Bench

LEAVES = 2


def remove(bench: Bench, replica: int, at: int = 0) -> None:
    removal = bench[at].configuration().remove_operation(replica)
    bench.invoke(at, removal.name, *removal.arguments, strong=True)
    bench.tick(40)
    assert replica in bench[at].configuration().former


def answered(bench: Bench, replica: int, key: str) -> Dot:
    """A weak call."""
    issued = bench.invoke(replica, "put", key, 1)
    assert [each.kind for each in bench.answers if each.id == issued] == [ResponseKind.TENTATIVE]
    return issued


def removed_while_it_issues() -> tuple[Bench, Dot]:
    """Others know that it is no member any more; it does not, and has answered a weak call."""
    bench = Bench()
    bench.tick(40)
    bench.isolate(LEAVES)
    remove(bench, LEAVES)
    assert bench[0].configuration().replica_ids == bench[1].configuration().replica_ids == (0, 1)
    return bench, answered(bench, LEAVES, "a")


def until_dismissed(bench: Bench, replica: int) -> None:
    """And then it is gone."""
    for _ in range(400):
        bench.tick()
        if bench[replica].can_shut_down():
            break
    assert bench[replica].can_shut_down()
    bench.crash(replica)


def test_what_it_issued_before_it_knew_is_handed_over_before_it_is_dismissed() -> None:
    bench, issued = removed_while_it_issues()
    bench.cut.clear()
    until_dismissed(bench, LEAVES)
    bench.tick(100)
    for each in (0, 1):
        assert bench[each].is_committed(issued)
        assert bench[each].state()["a"] == 1


def test_it_is_not_dismissed_while_nobody_gets_it() -> None:
    bench, issued = removed_while_it_issues()
    bench.cut.clear()
    for _ in range(400):
        bench.beat()
        for _ in range(len(bench.network)):
            sender, receiver, message = bench.network.popleft()
            if not (sender == LEAVES and isinstance(message, PullResponse)):
                bench.network.append((sender, receiver, message))
        bench.deliver()
    assert LEAVES in bench[LEAVES].configuration().former
    assert not bench[LEAVES].can_shut_down()
    assert not bench[0].has_request(issued)
    bench.tick(20)
    assert bench[LEAVES].can_shut_down()
    assert bench[0].has_request(issued)


def test_it_is_not_dismissed_while_only_one_of_two_has_it() -> None:
    bench, issued = removed_while_it_issues()
    bench.cut = {(LEAVES, 1), (0, 1), (1, 0)}
    bench.tick(100)
    assert bench[0].has_request(issued)
    assert not bench[1].has_request(issued)
    assert not bench[LEAVES].can_shut_down()
    bench.cut.clear()
    until_dismissed(bench, LEAVES)


def test_it_is_not_dismissed_while_it_knows_of_one_alone_who_knows() -> None:
    """Should that one forget it, nobody would ask the others any more."""
    bench = Bench(4)
    bench.tick(40)
    bench.cut = {(1, 3), (2, 3)}
    remove(bench, 3)
    bench.tick(100)
    assert 3 in bench[3].configuration().former
    assert not bench[3].can_shut_down()
    bench.cut.clear()
    until_dismissed(bench, 3)


def test_what_its_own_requests_come_after_is_handed_over_with_them() -> None:
    """Two are cut off together; the one whose request the other's comes after never comes back."""
    bench = Bench(5)
    bench.tick(40)
    bench.isolate(3, 4)
    before = answered(bench, 4, "a")
    bench.tick(5)
    strong = bench.invoke(3, "put", "b", 1, strong=True)
    after = answered(bench, 3, "c")
    bench.crash(4)
    remove(bench, 4)
    remove(bench, 3)
    bench.cut.clear()
    until_dismissed(bench, 3)
    bench.tick(100)
    for each in (before, strong, after):
        assert bench[0].is_committed(each)
