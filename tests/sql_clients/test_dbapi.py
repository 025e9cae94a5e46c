"""Interface of PEP 249 on live clusters."""

from datetime import UTC, date, datetime
from typing import Any

import pytest

from creekdb import dbapi
from tests.sql_clients.threaded_cluster import ThreadedCluster

CREATE = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE, stock INTEGER NOT NULL)"
INSERT = "INSERT INTO item(name, stock) VALUES (?, ?)"


def rows(connection: dbapi.Connection, text: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
    return connection.cursor().execute(text, parameters).fetchall()


def test_the_module_declares_its_properties() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 1, "qmark")
    assert issubclass(dbapi.SerializationFailure, dbapi.OperationalError)
    assert dbapi.Connection.IntegrityError is dbapi.IntegrityError


def test_cursors_execute_describe_and_fetch(replica: ThreadedCluster) -> None:
    with replica.connect() as connection, connection.cursor() as cursor:
        assert (cursor.rowcount, cursor.lastrowid, cursor.description) == (-1, None, None)
        cursor.execute(CREATE)
        cursor.execute(INSERT, ("tea", 3))
        first = cursor.lastrowid
        assert (cursor.rowcount, cursor.description) == (1, None)
        cursor.executemany(INSERT, [("milk", 1), ("eggs", 12)])
        assert cursor.rowcount == 2
        cursor.execute("SELECT id, name, stock FROM item ORDER BY id")
        assert cursor.description is not None
        assert [column[:2] for column in cursor.description] == [
            ("id", dbapi.NUMBER),
            ("name", dbapi.STRING),
            ("stock", dbapi.NUMBER),
        ]
        assert cursor.fetchone() == (first, "tea", 3)
        assert [row[1] for row in cursor.fetchmany(1)] == ["milk"]
        assert [row[1] for row in cursor] == ["eggs"]
        assert (cursor.fetchone(), cursor.fetchmany(), cursor.fetchall()) == (None, [], [])
        with pytest.raises(dbapi.ProgrammingError, match="cannot fetch -1 rows"):
            cursor.fetchmany(-1)
        cursor.execute("SELECT name FROM item WHERE stock > :least", {"least": 3})
        assert cursor.fetchall() == [("eggs",)]


def test_parameters_are_values_and_never_text(replica: ThreadedCluster) -> None:
    hostile = "x'); DROP TABLE item; --"
    with replica.connect() as connection:
        rows_before = [(hostile, 1)]
        cursor = connection.execute(CREATE).execute(INSERT, rows_before[0])
        assert rows(connection, "SELECT name, stock FROM item") == rows_before
        cursor.execute(
            "SELECT ?, ?, ?", (date(2026, 1, 2), datetime(2026, 1, 2, 3, 4, tzinfo=UTC), b"\0")
        )
        assert cursor.fetchall() == [("2026-01-02", "2026-01-02 03:04:00+00:00", b"\0")]
        with pytest.raises(dbapi.ProgrammingError, match="write \\(value,\\)"):
            cursor.execute("SELECT ?", "tea")
        with pytest.raises(dbapi.DataError, match="beyond 64 bits"):
            cursor.execute("SELECT ?", (2**64,))


def test_a_commit_makes_changes_visible_and_a_rollback_none(replica: ThreadedCluster) -> None:
    with replica.connect() as ann, replica.connect(autocommit=True) as bob:
        ann.execute(CREATE)
        ann.commit()
        ann.execute(INSERT, ("tea", 3))
        assert rows(ann, "SELECT name FROM item") == [("tea",)]
        assert rows(bob, "SELECT name FROM item") == []
        ann.rollback()
        assert not ann.in_transaction
        assert rows(ann, "SELECT name FROM item") == []
        ann.execute(INSERT, ("milk", 1))
        ann.commit()
        assert rows(bob, "SELECT name FROM item") == [("milk",)]
        assert ann.outcome().state == "stable"


def test_autocommit_commits_the_open_transaction(replica: ThreadedCluster) -> None:
    with replica.connect() as connection:
        connection.execute(CREATE)
        connection.autocommit = True
        assert not connection.in_transaction
        connection.execute(INSERT, ("tea", 3))
        connection.autocommit = False
        assert rows(connection, "SELECT name FROM item") == [("tea",)]


def test_the_context_manager_commits_unless_an_error_leaves_it(replica: ThreadedCluster) -> None:
    with replica.connect() as connection:
        connection.execute(CREATE)
    with pytest.raises(dbapi.ProgrammingError), replica.connect() as connection:
        connection.execute(INSERT, ("tea", 3)).execute("SELEC 1")
    with replica.connect() as connection:
        assert rows(connection, "SELECT * FROM item") == []
        connection.close()
        with pytest.raises(dbapi.InterfaceError, match="closed"):
            connection.cursor()


def test_row_ids_in_a_transaction_are_those_that_it_commits(cluster: ThreadedCluster) -> None:
    with cluster.connect() as connection:
        connection.execute(CREATE)
        inserted = connection.execute(INSERT, ("tea", 3)).lastrowid
        connection.execute("SAVEPOINT s")
        connection.execute(INSERT, ("milk", 3))
        connection.execute("ROLLBACK TO s")
        last = connection.execute(INSERT, ("eggs", 3)).lastrowid
        connection.commit()
        assert rows(connection, "SELECT id, name FROM item ORDER BY id") == [
            (inserted, "tea"),
            (last, "eggs"),
        ]


def test_a_strong_transaction_fails_if_its_reads_have_changed(cluster: ThreadedCluster) -> None:
    with cluster.connect(0) as ann, cluster.connect(1, autocommit=True) as bob:
        ann.execute(CREATE).execute(INSERT, ("tea", 3))
        ann.commit()
        stock = rows(ann, "SELECT stock FROM item")[0][0]
        ann.execute("UPDATE item SET stock = ?", (stock - 1,))
        bob.execute("UPDATE item SET stock = 0")
        with pytest.raises(dbapi.SerializationFailure, match="retry the transaction") as failure:
            ann.commit()
        assert failure.value.sqlstate == "40001"
        assert failure.value.is_retryable
        assert rows(ann, "SELECT stock FROM item") == [(0,)]


def test_an_overtaken_transaction_stays_failed_until_it_is_rolled_back(
    replica: ThreadedCluster,
) -> None:
    with replica.connect() as ann, replica.connect(autocommit=True) as bob:
        ann.execute(CREATE).execute(INSERT, ("tea", 3))
        ann.commit()
        rows(ann, "SELECT stock FROM item")
        bob.execute("UPDATE item SET stock = 2")
        with pytest.raises(dbapi.SerializationFailure, match="statement 1"):
            ann.execute(INSERT, ("milk", 1))
        with pytest.raises(dbapi.SerializationFailure, match="roll it back"):
            ann.execute(INSERT, ("milk", 1))
        with pytest.raises(dbapi.SerializationFailure, match="roll it back"):
            ann.commit()
        assert rows(ann, "SELECT name, stock FROM item") == [("tea", 2)]


def test_a_failed_statement_leaves_its_transaction_usable(replica: ThreadedCluster) -> None:
    with replica.connect() as connection:
        connection.execute(CREATE).execute(INSERT, ("tea", 3))
        with pytest.raises(dbapi.IntegrityError) as failure:
            connection.cursor().executemany(INSERT, [("milk", 1), ("tea", 3)])
        assert failure.value.sqlstate == "23505"
        connection.commit()
        assert rows(connection, "SELECT name FROM item") == [("tea",)]


def test_savepoints_nest_and_unknown_ones_are_refused(replica: ThreadedCluster) -> None:
    with replica.connect() as connection:
        connection.execute(CREATE)
        for name, savepoint in (("tea", "outer"), ("milk", "inner"), ("eggs", "last")):
            connection.execute(f"SAVEPOINT {savepoint}")
            connection.execute(INSERT, (name, 1))
        connection.execute("RELEASE SAVEPOINT last")
        connection.execute("ROLLBACK TO SAVEPOINT inner")
        with pytest.raises(dbapi.ProgrammingError, match="no such savepoint: last"):
            connection.execute("ROLLBACK TO last")
        connection.execute("RELEASE inner")
        connection.commit()
        assert rows(connection, "SELECT name FROM item") == [("tea",)]


def test_weak_statements_work_without_a_majority(cluster: ThreadedCluster) -> None:
    with cluster.connect(0) as connection:
        connection.execute(CREATE)
    cluster.settle()
    cluster.isolate(2)
    with cluster.connect(2, consistency="weak") as weak:
        inserted = weak.execute(INSERT, ("tea", 3))
        weak.commit()
        assert inserted.outcome().state == "tentative"
        assert rows(weak, "SELECT name FROM item") == [("tea",)]
        weak.rollback()
        weak.autocommit = True
        assert weak.execute(INSERT, ("milk", 1)).outcome().state == "tentative"


def test_outcomes_tell_tentative_results_from_final_ones(cluster: ThreadedCluster) -> None:
    with cluster.connect(0, consistency="weak", autocommit=True) as connection:
        connection.execute(CREATE)
        inserted = connection.execute(INSERT, ("tea", 3))
        outcome = inserted.outcome(wait=True)
        assert outcome.state == "stable"
        assert outcome.result is not None
        assert outcome.result.last_row_id == inserted.lastrowid
        query = connection.execute("SELECT 1")
        assert query.outcome(wait=True).state == "tentative"
        strong = connection.cursor(consistency="strong").execute("SELECT 1")
        assert strong.outcome().state == "stable"
        connection.execute("BEGIN")
        updated = connection.execute("UPDATE item SET stock = 2")
        with pytest.raises(dbapi.InterfaceError, match="not committed"):
            updated.outcome()
        connection.execute("COMMIT")
        assert updated.outcome(wait=True).state == "stable"


def test_one_strong_statement_makes_its_transaction_strong(replica: ThreadedCluster) -> None:
    with replica.connect(consistency="weak") as weak, replica.connect(autocommit=True) as other:
        weak.execute(CREATE).execute(INSERT, ("tea", 3))
        weak.commit()
        weak.outcome(wait=True)
        for level, expected in (("weak", 5), ("strong", 0)):
            rows(weak, "SELECT stock FROM item")
            weak.cursor(level).execute("UPDATE item SET stock = 5")
            other.execute("UPDATE item SET stock = 0")
            if level == "weak":
                weak.commit()
            else:
                with pytest.raises(dbapi.SerializationFailure):
                    weak.commit()
            assert rows(other, "SELECT stock FROM item") == [(expected,)]


@pytest.mark.parametrize(
    ("statement", "kind", "sqlstate", "message"),
    [
        ("SELEC 1", dbapi.ProgrammingError, "42601", 'near "SELEC": syntax error (line 1, col'),
        ("SELECT * FROM shop", dbapi.ProgrammingError, "42P01", "no such table: shop"),
        ("SELECT price FROM item", dbapi.ProgrammingError, "42703", "no such column: price"),
        ("SELECT ?", dbapi.ProgrammingError, "07001", "parameter"),
        (CREATE, dbapi.ProgrammingError, "42P07", "already exists"),
        ("INSERT INTO item(name) VALUES ('x')", dbapi.IntegrityError, "23502", "NOT NULL"),
        ("ATTACH 'x' AS y", dbapi.NotSupportedError, "0A000", "ATTACH is not supported"),
        ("BEGIN item", dbapi.ProgrammingError, "42601", 'near "item"'),
        ("SAVEPOINT", dbapi.ProgrammingError, "42601", "incomplete input"),
    ],
)
@pytest.mark.parametrize("autocommit", [True, False])
def test_errors_are_classified_and_change_nothing(
    error_cluster: ThreadedCluster,
    autocommit: bool,
    statement: str,
    kind: type[dbapi.Error],
    sqlstate: str,
    message: str,
) -> None:
    with error_cluster.connect(autocommit=autocommit) as connection:
        with pytest.raises(kind) as failure:
            connection.execute(statement)
        assert failure.value.sqlstate == sqlstate
        assert message in str(failure.value)
        assert rows(connection, "SELECT count(*) FROM item") == [(0,)]
        connection.rollback()


@pytest.fixture(scope="module")
def error_cluster(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with ThreadedCluster(tmp_path_factory.mktemp("errors"), replicas=1) as running:
        with running.connect() as connection:
            connection.execute(CREATE)
        yield running


def test_wrong_settings_are_refused(replica: ThreadedCluster) -> None:
    address = replica.addresses()
    with pytest.raises(dbapi.InterfaceError, match="'weak' or 'strong', not 'medium'"):
        dbapi.connect(address, consistency="medium")
    with pytest.raises(dbapi.InterfaceError, match="unknown setting 'level'"):
        dbapi.connect(f"creek://{address}/?level=weak")
    with pytest.raises(dbapi.InterfaceError, match="timeout is a number"):
        dbapi.connect(f"creek://{address}/?timeout=soon")
    with dbapi.connect(f"creek://{address}/?consistency=weak&autocommit=1") as connection:
        assert (connection.consistency, connection.autocommit) == ("weak", True)


def test_a_cluster_that_cannot_be_reached_is_an_operational_error() -> None:
    with pytest.raises(dbapi.OperationalError) as failure:
        dbapi.connect("127.0.0.1:1", patience=0.2)
    assert failure.value.sqlstate == "08006"
