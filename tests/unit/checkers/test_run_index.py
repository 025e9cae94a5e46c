from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from creekdb.checkers.run_index import IdSet
from creekdb.history import Dot

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
