from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from creekdb.checkers.run_index import IdSet, RunIndex
from creekdb.history import CheckpointInstalled, Committed, Dot
from creekdb.protocol.ids.version_vector import DotSet
from tests.unit.checkers.history_builder import HistoryBuilder

dots = st.lists(st.builds(Dot, st.integers(0, 2), st.integers(1, 12)))


def _ids(members: Iterable[Dot]) -> IdSet:
    ids = IdSet()
    for dot in members:
        ids.add(dot)
    return ids


@given(dots, dots)
def test_an_id_set_behaves_like_a_set(left: list[Dot], right: list[Dot]) -> None:
    ids, others = _ids(left), _ids(right)
    assert sorted(ids) == sorted(set(left))
    assert all((dot in ids) == (dot in left) for dot in left + right)
    assert sorted(ids.missing(others)) == sorted(set(right) - set(left))
    assert (ids.first_missing(others) is None) == (set(right) <= set(left))
    ids.update(others)
    assert sorted(ids) == sorted({*left, *right})


@given(dots)
def test_ranges_are_disjoint_and_not_adjacent(members: list[Dot]) -> None:
    for flat in _ids(members).ranges.values():
        assert flat == sorted(set(flat))
        assert len(flat) % 2 == 0


def test_a_lost_commit_fills_gaps_that_a_recovered_checkpoint_covers() -> None:
    """A visible commit at the same index wins, in whichever order the logs are read."""
    builder = HistoryBuilder(2)
    one, other = Dot(0, 1), Dot(1, 1)
    prefix = DotSet([one, other]).freeze()
    builder.log(0, CheckpointInstalled(2, 3, prefix))
    builder.log(0, Committed(other, 1))
    for index in range(3):
        builder.log(1, Committed(one, index))
    builder.incarnations[1][0].lost_event_count = 3
    builder.restart(1)
    builder.is_clock_stopped = True
    builder.log(1, CheckpointInstalled(1, 2, prefix))

    assert RunIndex(builder.history()).committed == [one, other, None]
