"""The members change under a replica that is busy."""

from creekdb.protocol.membership.configuration import find_configuration
from creekdb.protocol.messages import CatchUp, Snapshot
from tests.unit.schemes.bench import Bench


def test_a_snapshot_does_not_tell_of_members_that_are_no_more() -> None:
    """A change that is delivered and not executed yet: there will be a later one."""
    bench = Bench()
    bench.tick(40)
    bench.invoke(1, "put", "a", 1, strong=True)
    bench.tick(5)
    bench.holding[0] = []
    removal = bench[1].configuration().remove_operation(2)
    bench.invoke(1, removal.name, *removal.arguments, strong=True)
    bench.tick(40)
    assert bench[0].configuration().replica_ids == (0, 1)

    def snapshots() -> list[Snapshot]:
        bench.sent.clear()
        bench.receive(0, 1, CatchUp(0))
        return [each for _, _, each in bench.sent if isinstance(each, Snapshot)]

    assert snapshots() == []
    bench.run_held(0)
    (told,) = snapshots()
    known = find_configuration(told.checkpoint.state)
    assert known is not None
    assert known.replica_ids == (0, 1)
