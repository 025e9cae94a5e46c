"""Random statements have the results of plain SQLite."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sql.differential import run


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_random_statements_have_the_results_of_sqlite(seed: int) -> None:
    assert sum(1 for _ in run(Random(seed), 30)) == 30
