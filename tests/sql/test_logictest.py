"""The corpus of statements has the results of plain SQLite."""

from pathlib import Path

import pytest

from tests.sql.differential import Difference
from tests.sql.logictest import (
    CORPUS,
    Executed,
    corpus_statements,
    expand,
    logictest_statements,
    run_file,
    statements_of,
)

FILES = sorted(CORPUS.glob("*.sql"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_corpus_has_the_results_of_sqlite(path: Path) -> None:
    executed = run_file(path)
    assert executed.refused == 0
    assert executed.queries + executed.changes == len(list(statements_of(path)))


def test_the_corpus_has_three_thousand_queries() -> None:
    queries = {each for path in FILES for each in statements_of(path) if each.startswith("SELECT")}
    assert len(queries) >= 3000


def test_a_line_stands_for_each_combination_of_its_alternatives() -> None:
    assert expand("«a¦b» || «1¦»") == ["a || 1", "a || ", "b || 1", "b || "]
    assert list(corpus_statements("-- note\n\nSELECT «1¦2»")) == ["SELECT 1", "SELECT 2"]


def test_records_for_other_systems_are_skipped() -> None:
    text = (
        "hash-threshold 8\n\nstatement ok\nCREATE TABLE t(\n  a)\n\nonlyif mysql\nstatement ok\nX\n"
        "\nskipif sqlite\nquery I\nY\n\n# note\nonlyif sqlite\nquery I rowsort\nSELECT 1\n----\n"
        "1\n\nhalt\n\nquery I\nSELECT 2\n----\n2"
    )
    assert list(logictest_statements(text)) == ["CREATE TABLE t(\n  a)", "SELECT 1"]


def test_a_wrong_result_is_reported_with_its_statements(tmp_path: Path) -> None:
    path = tmp_path / "wrong.sql"
    path.write_text("CREATE TABLE t(a)\nCREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END\n")
    assert run_file(path) == Executed(queries=0, changes=1, errors=0, refused=1)
    path.write_text("CREATE TABLE t(a)\nSELECT last_insert_rowid() + changes() + random() FROM t\n")
    assert run_file(path).queries == 1
    path.write_text("SELECT 1\nSELECT random()\n")
    with pytest.raises(Difference, match=r"SELECT 1;\nSELECT random\(\)\n--- Creek:"):
        run_file(path)
