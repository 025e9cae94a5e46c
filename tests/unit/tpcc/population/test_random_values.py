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
def test_a_last_name_is_three_syllables_of_clause_4_3_2_3(number: int, name: str) -> None:
    assert LAST_NAMES[number] == name
    assert LAST_NAME_NUMBERS[name] == number


def test_all_thousand_last_names_differ() -> None:
    assert len(set(LAST_NAMES)) == 1000


def test_nurand_is_the_formula_of_clause_2_1_6() -> None:
    assert nurand(0b1010, 0b0110, 7, 0, 999) == 0b1110 + 7
    assert nurand(1023, 2999, 500, 1, 3000) == ((1023 | 2999) + 500) % 3000 + 1


def test_nurand_covers_the_whole_range_and_nothing_else() -> None:
    drawn = Counter(
        nurand(coarse, fine, 123, 1, 3000)
        for coarse in range(0, 1024, 11)
        for fine in range(1, 3001)
    )

    assert min(drawn) >= 1
    assert max(drawn) <= 3000
    assert len(drawn) > 2900


def test_the_runs_constant_differs_from_the_populations_as_clause_2_1_6_1_says() -> None:
    assert set(LAST_NAME_DELTAS) == set(range(65, 120)) - {96, 112}
    for load in range(256):
        allowed = run_constants(load)
        assert allowed
        for run in allowed:
            assert 0 <= run <= 255
            assert 65 <= abs(run - load) <= 119
            assert abs(run - load) not in (96, 112)
