"""Black-box checks by data type."""

import msgspec

from creekdb.checkers import Illegal, Inconclusive, Ok
from creekdb.torture.blackbox import judge
from tests.unit.checkers.blackbox.kv_runs import serial_run
from tests.unit.checkers.blackbox.transaction_runs import (
    SerialExecution,
    concurrent_run,
    run_of,
    transaction,
)


def test_every_check_of_the_key_value_store_accepts_a_serial_execution() -> None:
    verdicts = [each.verdict for each in judge(serial_run(1))]

    assert verdicts == [Ok("exactly once"), Ok("final states"), Ok("sessions")]


def test_an_anomaly_of_transactions_has_a_picture() -> None:
    run = concurrent_run([("append", "x", 1), ("r", "x", ())])

    *_, (verdict, picture) = judge(run)

    assert isinstance(verdict, Illegal)
    assert picture is not None
    assert picture.startswith("<svg")


def test_transactions_without_an_anomaly_have_no_picture() -> None:
    assert judge(SerialExecution(1).run(50))[-1] == (Ok("transactions"), None)


def test_transactions_that_allow_no_inference_are_not_judged() -> None:
    run = run_of(transaction([("append", "x", 1)], 0), transaction([("append", "x", 1)], 50))

    assert isinstance(judge(run)[-1].verdict, Inconclusive)


def test_other_data_types_have_the_common_checks() -> None:
    run = msgspec.structs.replace(serial_run(1), datatype="shop:shop")

    assert [each.verdict.checker for each in judge(run)] == ["exactly once", "final states"]
