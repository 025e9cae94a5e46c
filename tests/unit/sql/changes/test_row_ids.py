from creekdb.execution.sequential import Sequential
from creekdb.execution.transaction import Transaction
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import NOOP, Request
from creekdb.sql.changes.row_ids import NUMBER_BITS, REPLICA_BITS, next_row_id
from creekdb.sql.connection import Session
from tests.unit.execution.strategies import SCRIPT
from tests.unit.sql.databases import Database


def session(timestamp: int, replica: int = 0) -> Session:
    request = Request(timestamp, Dot(replica, 1), NOOP, strong=False)
    return Session(Transaction(request, Sequential(SCRIPT)))


def test_row_ids_fit_into_63_bits_and_increase_with_time() -> None:
    now = 1_800_000_000_000_000

    ids = [next_row_id(session(now + step, replica)) for step in range(3) for replica in range(5)]

    assert ids == sorted(set(ids))
    assert 0 < ids[0] < ids[-1] < 2**63


def test_row_ids_of_one_operation_are_consecutive() -> None:
    one = session(5, replica=1)

    assert next_row_id(one) + 1 == next_row_id(one)


def test_replicas_draw_different_ids_at_the_same_time() -> None:
    first, second = next_row_id(session(5, 0)), next_row_id(session(5, 1))

    assert second - first == 2**NUMBER_BITS


def test_replicas_draw_different_ids_for_many_rows_at_the_same_time() -> None:
    sessions = [session(5, replica) for replica in range(2**REPLICA_BITS)]

    ids = [next_row_id(each) for each in sessions for _ in range(2 * 2**NUMBER_BITS + 1)]

    assert len(set(ids)) == len(ids)


def test_only_many_rows_per_microsecond_of_one_replica_draw_equal_ids() -> None:
    first, second = session(5), session(7)
    many = [next_row_id(first) for _ in range(2 * 2**NUMBER_BITS)]

    assert next_row_id(second) not in many
    assert next_row_id(first) == next_row_id(session(7))
    assert next_row_id(session(7, 1)) == next_row_id(session(7, 1 + 2**REPLICA_BITS))
    assert many == sorted(many)


def test_a_time_beyond_the_bits_still_yields_an_id() -> None:
    assert 0 <= next_row_id(session(2**63 - 1, 31)) < 2**63


def test_an_autoincrement_table_is_full_after_the_last_id() -> None:
    database = Database(
        "CREATE TABLE t(a INTEGER PRIMARY KEY AUTOINCREMENT)",
        "INSERT INTO t VALUES (9223372036854775807)",
        "DELETE FROM t",
    )
    assert "SqlError: database or disk is full" in database.error("INSERT INTO t DEFAULT VALUES")
