"""Random statements have the results of plain SQLite."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sql.differential import Difference, Pair, find_difference, run, shrink
from tests.sql.grammar import bind_literals


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_random_statements_have_the_results_of_sqlite(seed: int) -> None:
    assert sum(1 for _ in run(Random(seed), 30)) == 30


def test_a_difference_is_reported_with_the_statements_that_it_needs() -> None:
    script = [
        ("CREATE TABLE t(a)", ()),
        ("CREATE TABLE u(a)", ()),
        ("INSERT INTO t VALUES (1)", ()),
        ("INSERT INTO u VALUES (?)", (2,)),
        ("SELECT a, random() FROM u", ()),
        ("DROP TABLE u", ()),
    ]
    difference = find_difference(script)
    assert difference is not None

    lines = str(shrink(script, difference)).split("\n---")[0].splitlines()

    assert lines == [
        "CREATE TABLE u(a);",
        "INSERT INTO u VALUES (?) -- (2,);",
        "SELECT a, random() FROM u",
    ]


def test_an_index_without_its_entries_is_a_difference() -> None:
    pair = Pair()
    pair.execute("CREATE TABLE t(a TEXT UNIQUE)")
    pair.execute("INSERT INTO t VALUES ('x'), ('y')")
    pair.check_state()
    del pair.machine.state["sql.index", "t", "unique 1", "x"]

    with pytest.raises(Difference, match="index entries"):
        pair.check_state()


def test_parameters_replace_literals_but_no_numbers_of_columns() -> None:
    statement = (
        "SELECT x'61', 'it''s' FROM t WHERE a < -2 ORDER BY 1 COLLATE BINARY DESC, 2 LIMIT 3"
    )

    bound = {bind_literals(statement, Random(seed)) for seed in range(200)}

    assert len(bound) == 2**4
    assert max(bound, key=lambda each: len(each[1])) == (
        "SELECT ?, ? FROM t WHERE a < -? ORDER BY 1 COLLATE BINARY DESC, 2 LIMIT ?",
        (b"a", "it's", 2, 3),
    )
    assert bind_literals("CREATE TABLE t(a DEFAULT 1)", Random(1))[1] == ()
