from creekdb.sql.result import SqlResult


def test_a_result_is_decoded_from_its_value() -> None:
    result = SqlResult(("a", "b"), ((1, None), ("x", b"y")), 2, 7)

    assert SqlResult.from_value(result.to_value()) == result
    assert result.to_value() == {
        "columns": ("a", "b"),
        "rows": ((1, None), ("x", b"y")),
        "row_count": 2,
        "last_row_id": 7,
    }
