"""One that was removed while it issued something: nothing that it answered is lost."""

from creek.protocol.dots import Dot
from creek.protocol.effects import Kind
from creek.protocol.messages import Cast
from tests.unit.schemes.bench import Bench

LEAVES = 2


def removed_while_it_issues() -> tuple[Bench, Dot]:
    """Others know that it is no member any more; it does not, and has answered a weak call."""
    bench = Bench()
    bench.tick(40)
    bench.isolate(LEAVES)
    removal = bench[0].configuration().removing(LEAVES)
    bench.invoke(0, removal.name, *removal.arguments, strong=True)
    bench.tick(40)
    assert bench[0].configuration().numbers == bench[1].configuration().numbers == (0, 1)
    issued = bench.invoke(LEAVES, "put", "a", 1)
    assert [each.kind for each in bench.answers if each.id == issued] == [Kind.TENTATIVE]
    return bench, issued


def test_what_it_issued_before_it_knew_is_handed_over_before_it_is_dismissed() -> None:
    bench, issued = removed_while_it_issues()
    bench.cut.clear()
    for _ in range(400):
        bench.tick()
        if bench[LEAVES].is_dismissed():
            break
    assert bench[LEAVES].is_dismissed()
    bench.crash(LEAVES)
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
            if not (sender == LEAVES and isinstance(message, Cast)):
                bench.network.append((sender, receiver, message))
        bench.deliver()
    assert LEAVES in bench[LEAVES].configuration().former
    assert not bench[LEAVES].is_dismissed()
    assert not bench[0].has(issued)
    bench.tick(20)
    assert bench[LEAVES].is_dismissed()
    assert bench[0].has(issued)
