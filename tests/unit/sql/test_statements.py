import pytest

from creekdb.errors import SqlParameterError, SqlSyntaxError, SqlUnsupported
from creekdb.sql.statements import (
    Assignments,
    Delete,
    Insert,
    Update,
    bind,
    find_leading_word,
    greatest_parameter,
    has_range_between_columns,
    has_row_value_in_list,
    has_subquery_in_list,
    leading_word,
    number_parameters,
    parse,
)


@pytest.mark.parametrize(
    ("text", "numbered", "size"),
    [
        ("SELECT ?, ?", "SELECT ?1, ?2", 2),
        ("SELECT :a, ?, :a", "SELECT ?1, ?2, ?1", 2),
        ("SELECT ?3, ?", "SELECT ?3, ?4", 4),
        ("SELECT '?', \"?\" -- ?\n, @b", "SELECT '?', \"?\" -- ?\n, ?1", 1),
    ],
)
def test_parameters_are_numbered_as_by_sqlite(text: str, numbered: str, size: int) -> None:
    result = number_parameters(text)

    assert (result.text, result.size) == (numbered, size)


def test_parameter_numbers_have_limits() -> None:
    with pytest.raises(SqlSyntaxError, match="between"):
        number_parameters("SELECT ?0")
    with pytest.raises(SqlSyntaxError, match="between"):
        number_parameters("SELECT ?32767")


def test_parameters_are_bound_by_position_or_by_name() -> None:
    assert bind(number_parameters("SELECT ?, ?"), (1, 2), {}) == (1, 2)
    assert bind(number_parameters("SELECT :b, :a, :b"), (), {"a": 1, "b": 2}) == (2, 1)


@pytest.mark.parametrize(
    ("text", "parameters", "named", "message"),
    [
        ("SELECT ?", (), {}, "takes 1 parameters, but 0 were given"),
        ("SELECT 1", (1,), {}, "takes 0 parameters, but 1 were given"),
        ("SELECT :a", (), {"b": 1}, "parameter 'a' of the statement was not given"),
        ("SELECT :a", (), {"a": 1, "b": 1}, "has no parameter 'b'"),
        ("SELECT :a, ?", (), {"a": 1}, "cannot be mixed"),
        ("SELECT :a", (1,), {"a": 1}, "cannot be mixed"),
    ],
)
def test_wrong_parameters_are_rejected(
    text: str, parameters: tuple[object, ...], named: dict[str, object], message: str
) -> None:
    with pytest.raises(SqlParameterError, match=message):
        bind(number_parameters(text), parameters, named)


def test_greatest_parameter_ignores_literals() -> None:
    assert greatest_parameter("SELECT ?2, '?9', ?1") == 2
    assert greatest_parameter("SELECT 1") == 0


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("with a as (select 1) insert into t select * from a", "INSERT"),
        ("WITH RECURSIVE a(x) AS (VALUES (1)), b AS (SELECT 2) SELECT * FROM a", "SELECT"),
        ("-- comment\nDELETE FROM t", "DELETE"),
        ("(SELECT 1)", ""),
    ],
)
def test_the_kind_of_a_statement_follows_its_with_clause(text: str, word: str) -> None:
    assert leading_word(text) == word
    assert find_leading_word(text) == word


@pytest.mark.parametrize("text", ["", "SELECT 1; SELECT 2", "SELECT 'unfinished", "WITH a"])
def test_a_text_with_an_error_has_no_leading_word(text: str) -> None:
    assert find_leading_word(text) == ""


def test_clauses_of_insert() -> None:
    change = parse(
        'WITH q AS (SELECT 1) INSERT OR IGNORE INTO main.t AS u (a, "b") SELECT x, y FROM q '
        "WHERE true ON CONFLICT (a) DO UPDATE SET b = excluded.b, a = (SELECT 1) WHERE b > 1 "
        "ON CONFLICT DO NOTHING RETURNING a, b AS c"
    )

    assert isinstance(change, Insert)
    assert change.target == ("WITH q AS (SELECT 1)", "t", "u", "IGNORE")
    assert change.columns == ("a", "b")
    assert change.source == "SELECT x, y FROM q WHERE true"
    first, second = change.upserts
    assert first.target == ("a",)
    assert first.assignments == Assignments(("b", "a"), ("excluded.b", "(SELECT 1)"))
    assert first.where == "b > 1"
    assert (second.target, second.assignments) == (None, None)
    assert change.returning == "a, b AS c"


def test_clauses_of_replace_and_default_values() -> None:
    replace = parse("REPLACE INTO t VALUES (1, 'RETURNING')")
    default = parse("INSERT INTO t DEFAULT VALUES RETURNING *")

    assert isinstance(replace, Insert)
    assert isinstance(default, Insert)
    assert (replace.target.resolution, replace.source) == ("REPLACE", "VALUES (1, 'RETURNING')")
    assert (default.source, default.returning) == (None, "*")


def test_clauses_of_update() -> None:
    change = parse(
        "UPDATE OR REPLACE t AS u SET a = (b = 1), (c, d) = (1, f(2, 3)) FROM x JOIN y USING (z) "
        "WHERE u.a = x.a RETURNING *"
    )

    assert isinstance(change, Update)
    assert change.assignments == Assignments(("a", "c", "d"), ("(b = 1)", "1", "f(2, 3)"))
    assert change.origin == "x JOIN y USING (z)"
    assert (change.where, change.returning) == ("u.a = x.a", "*")


def test_a_row_of_a_subquery_becomes_one_subquery_for_each_column() -> None:
    change = parse("UPDATE t SET (a, b) = (SELECT x, y FROM u)")

    assert isinstance(change, Update)
    assert change.assignments.columns == ("a", "b")
    assert all("SELECT x, y FROM u" in each for each in change.assignments.expressions)


def test_clauses_of_delete() -> None:
    change = parse("DELETE FROM t INDEXED BY i WHERE a = 'WHERE' RETURNING a")

    assert isinstance(change, Delete)
    assert (change.where, change.returning) == ("a = 'WHERE'", "a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("INSERT OR ROLLBACK INTO t VALUES (1)", "OR ROLLBACK is not supported"),
        ("INSERT INTO other.t VALUES (1)", "no database 'other'"),
        ("INSERT INTO t VALUES (1) ON CONFLICT (a COLLATE NOCASE) DO NOTHING", "COLLATE"),
        ("INSERT INTO t VALUES (1) ON CONFLICT (a) WHERE a > 1 DO NOTHING", "WHERE"),
    ],
)
def test_unsupported_clauses_are_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(SqlUnsupported, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a IN (1, 2)", False),
        ("SELECT a IN (SELECT 1)", True),
        ("SELECT a IN t", True),
        ("SELECT 'IN (SELECT'", False),
    ],
)
def test_subqueries_in_lists_are_found(text: str, expected: bool) -> None:
    assert has_subquery_in_list(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT (a, b) IN (SELECT 1, 2)", True),
        ("SELECT (a, b) IN (WITH x AS (SELECT 1, 2) SELECT * FROM x)", True),
        ("SELECT (a, b) IN t", True),
        ("SELECT (a, b) IN (VALUES (1, 2))", False),
        ("SELECT a IN (SELECT 1)", False),
        ("SELECT (a, b) = (SELECT 1, 2)", False),
    ],
)
def test_row_values_in_lists_are_found(text: str, expected: bool) -> None:
    assert has_row_value_in_list(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1 FROM t WHERE a < ? AND 'x' <= b AND c > -1 AND d = e", False),
        ("SELECT 1 FROM t WHERE a BETWEEN ? AND 5 AND b = 1", False),
        ("SELECT 1 FROM t, u WHERE t.a < u.b", True),
        ("SELECT 1 FROM t WHERE a >= (SELECT b FROM u)", True),
        ("SELECT 1 FROM t WHERE a BETWEEN 1 AND b", True),
        ("SELECT 1 FROM t WHERE (a, b) < (1, c)", True),
        ("SELECT 1 FROM t WHERE a < lower(b)", True),
    ],
)
def test_a_range_between_columns_is_found(text: str, expected: bool) -> None:
    assert has_range_between_columns(text) == expected
