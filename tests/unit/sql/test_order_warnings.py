"""Warnings about statements whose results depend on the plan."""

import pytest

from creekdb.sql.order_warnings import find_order_warnings


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("SELECT a FROM t LIMIT 3", ["LIMIT without"]),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a) LIMIT 3", ["LIMIT without"]),
        ("SELECT a FROM t WHERE a IN (SELECT b FROM u LIMIT 2) ORDER BY a", ["LIMIT without"]),
        ("INSERT INTO t SELECT a FROM u LIMIT 1", ["LIMIT without"]),
        ("SELECT a FROM t UNION SELECT b FROM u LIMIT 1", ["LIMIT without"]),
        ("SELECT group_concat(a, ',') FROM t", ["group_concat() without"]),
        ("SELECT json_group_array(a) FROM (SELECT a FROM t ORDER BY a)", ["json_group_array()"]),
        ("SELECT row_number() OVER (PARTITION BY a) FROM t", ["row_number() without"]),
        ("SELECT lag(a) FILTER (WHERE a) OVER () FROM t", ["lag() without"]),
        ("SELECT string_agg(a, '') FROM t LIMIT 1", ["string_agg()", "LIMIT without"]),
        ("SELECT a FROM t LIMIT 1; ", ["LIMIT without"]),
    ],
)
def test_a_result_that_depends_on_the_plan_is_reported(text: str, warned: list[str]) -> None:
    warnings = find_order_warnings(text)
    assert len(warnings) == len(warned)
    assert all(each.startswith(start) for each, start in zip(warnings, warned, strict=True))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM t ORDER BY a LIMIT 3",
        "SELECT a FROM t WHERE a IN (SELECT b FROM u ORDER BY b LIMIT 2)",
        "SELECT 1 LIMIT 1",
        "SELECT 'LIMIT' FROM t",
        'SELECT a AS "limit" FROM t',
        "SELECT group_concat(a, ',' ORDER BY b) FROM t",
        "SELECT row_number() OVER (PARTITION BY a ORDER BY b) FROM t",
        "SELECT row_number() OVER named FROM t WINDOW named AS (ORDER BY a)",
        "SELECT count(*) OVER () FROM t",
        "SELECT group_concat",
        "SELECT lag(",
        "SELECT 'open",
        "",
    ],
)
def test_other_statements_are_not_reported(text: str) -> None:
    assert find_order_warnings(text) == ()
