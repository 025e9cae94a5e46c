from collections import Counter

import pytest

from creekdb.tpcc.population.random_values import (
    LAST_NAME_DELTAS,
    LAST_NAME_NUMBERS,
    LAST_NAMES,
    nurand,
    run_constants,
)


@pytest.mark.parametrize(
    ("number", "name"),
    [(371, "PRICALLYOUGHT"), (40, "BARPRESBAR"), (0, "BARBARBAR"), (999, "EINGEINGEING")],
)
def test_last_names_consist_of_three_syllables_of_clause_4_3_2_3(number: int, name: str) -> None:
    assert LAST_NAMES[number] == name
    assert LAST_NAME_NUMBERS[name] == number


def test_last_names_are_unique() -> None:
    assert len(set(LAST_NAMES)) == 1000


def test_nurand_follows_clause_2_1_6() -> None:
    assert nurand(0b1010, 0b0110, 7, 0, 999) == 0b1110 + 7
    assert nurand(1023, 2999, 500, 1, 3000) == ((1023 | 2999) + 500) % 3000 + 1


def test_nurand_stays_in_its_range_and_covers_it() -> None:
    drawn = Counter(
        nurand(coarse, fine, 123, 1, 3000)
        for coarse in range(0, 1024, 11)
        for fine in range(1, 3001)
    )

    assert min(drawn) >= 1
    assert max(drawn) <= 3000
    assert len(drawn) > 2900


def test_run_constants_keep_the_distances_of_clause_2_1_6_1() -> None:
    assert set(LAST_NAME_DELTAS) == set(range(65, 120)) - {96, 112}
    for load in range(256):
        allowed = run_constants(load)
        assert allowed
        for run in allowed:
            assert 0 <= run <= 255
            assert 65 <= abs(run - load) <= 119
            assert abs(run - load) not in (96, 112)
