"""When garbage is looked for, while a live replica runs."""

import gc

from creek.execution.garbage import OF_A_CALL, SERVING, collect_beyond, seldom_collecting


def test_what_is_under_way_is_not_looked_at_over_and_over() -> None:
    before = gc.get_threshold()
    with seldom_collecting(SERVING):
        collect_beyond(0)
        assert gc.get_threshold() == SERVING
        many = 10 * SERVING[0] // OF_A_CALL
        collect_beyond(many)
        assert gc.get_threshold() == (OF_A_CALL * many, *SERVING[1:])
        collect_beyond(0)
        assert SERVING[0] < gc.get_threshold()[0] < OF_A_CALL * many, "calls come in waves"
        for _ in range(100):
            collect_beyond(0)
        assert gc.get_threshold() == SERVING
    assert gc.get_threshold() == before
