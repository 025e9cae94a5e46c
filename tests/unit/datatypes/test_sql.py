"""Operations of the data type `sql` and of data types made like it."""

from typing import Any

import pytest

from creekdb.datatypes.sql import SQL, create_sql_type
from creekdb.errors import BadValue
from creekdb.execution.sequential import OperationRaised

ITEM = "CREATE TABLE item(id INTEGER PRIMARY KEY)"
INSERT = "INSERT INTO item VALUES (?)"


@pytest.mark.parametrize(
    ("operation", "arguments", "part"),
    [
        ("sql", ([ITEM, (INSERT, (1,)), (INSERT, (1,))],), " (statement 3 of 3)"),
        ("transaction", ([ITEM, "SELECT 1; SELECT 2"],), " (statement 2 of 2)"),
        ("transaction", ([ITEM, 5],), " (statement 2 of 2)"),
        ("queries", (["SELECT 1", "SELECT x", "SELECT 2"],), " (statement 2 of 3)"),
        ("batch", ("SELECT 1 / ?", [(1,), (2, 3)]), " (parameters 2 of 2)"),
        (
            "commit",
            (
                [{"sql": ITEM, "parameters": ()}, {"sql": "DROP x", "parameters": ()}],
                None,
                (1, 1, 1),
            ),
            " (statement 2 of 2)",
        ),
        (
            "commit",
            (
                [
                    {"sql": ITEM, "parameters": ()},
                    {"sql": INSERT, "each": [(1,), (1,), (2,)]},
                ],
                None,
                (1, 1, 1),
            ),
            " (parameters 2 of 3) (statement 2 of 2)",
        ),
        ("sql", ("SELECT x",), "column 8)"),
        ("transaction", (["SELECT x"],), "column 8)"),
    ],
)
def test_an_error_names_the_part_that_raised_it(
    operation: str, arguments: tuple[Any, ...], part: str
) -> None:
    with pytest.raises(OperationRaised) as raised:
        SQL.sequential().call(operation, *arguments)

    assert str(raised.value).endswith(part)


def test_the_step_limit_of_the_operations_can_be_chosen() -> None:
    small, large = create_sql_type(steps=50), create_sql_type("tables", steps=5000)
    statements = (ITEM, *[f"INSERT INTO item VALUES ({number})" for number in range(50)])

    with pytest.raises(OperationRaised, match="took more than 50 steps"):
        small.sequential().call("sql", statements)
    assert len(large.sequential().call("sql", statements)) == 51
    assert (small.name, large.name) == ("sql", "tables")
    assert list(large.operations) == list(SQL.operations)
    assert [large.is_readonly(each) for each in large.operations] == [
        SQL.is_readonly(each) for each in SQL.operations
    ]


def test_a_step_limit_is_positive() -> None:
    with pytest.raises(BadValue, match="step limit"):
        create_sql_type(steps=0)
