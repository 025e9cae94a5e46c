"""Operations that leave their footprint: the same error on every replica, whatever they catch."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from creekdb.execution.footprint import Footprint
from creekdb.execution.result import ExecutionResult
from creekdb.execution.sequential import Sequential
from creekdb.execution.transaction import BLIND_ADD_MAX, Transaction
from creekdb.protocol.request import NOOP, Outcome
from tests.unit.execution.strategies import SCRIPT, request

SEAT, OTHER, PRICE = ("seat", 1), ("seat", 2), ("price", 1)
FOOTPRINT = Footprint((SEAT,), (("price",),))


def transaction() -> Transaction:
    view = Sequential(SCRIPT)
    view.state = {SEAT: 1, OTHER: 2, PRICE: 3}
    tx = Transaction(request(NOOP), view, name="reserve")
    tx.restrict(FOOTPRINT)
    return tx


def run(act: Callable[[Transaction], Any]) -> ExecutionResult:
    """Run an operation that catches everything, writes once more and returns."""
    tx = transaction()
    for each in (act, lambda tx: tx.put(SEAT, "after")):
        with suppress(BaseException):
            each(tx)
    return tx.close(Outcome("done"))


@pytest.mark.parametrize(
    ("act", "access"),
    [
        (lambda tx: tx.get(OTHER), "read ('seat', 2)"),
        (lambda tx: tx.pick(OTHER, 0), "read ('seat', 2)"),
        (lambda tx: tx.put(OTHER, 1), "wrote ('seat', 2)"),
        (lambda tx: tx.put(PRICE, 1), "wrote ('price', 1)"),
        (lambda tx: tx.delete(OTHER), "wrote ('seat', 2)"),
        (lambda tx: tx.delete(PRICE), "wrote ('price', 1)"),
        (lambda tx: tx.add(OTHER, 1), "wrote ('seat', 2)"),
        (lambda tx: tx.add(PRICE, 1), "wrote ('price', 1)"),
        (lambda tx: tx.add(PRICE, BLIND_ADD_MAX), "wrote ('price', 1)"),
        (lambda tx: tx.scan(("seat",)), "scanned the keys with prefix ('seat',)"),
        (lambda tx: tx.scan(start="a", stop="b"), "scanned the keys with start 'a', stop 'b'"),
        (lambda tx: tx.scan(), "scanned all keys"),
    ],
)
def test_an_access_outside_the_footprint_is_the_outcome(
    act: Callable[[Transaction], Any], access: str
) -> None:
    result = run(act)

    assert result.outcome == Outcome(
        error=f"OutsideFootprint: operation 'reserve' {access} outside its footprint "
        "[('seat', 1)] and, to read, [('price',)]; declare what it touches"
    )
    assert result.writes == {}
    assert result.blind_adds == {}


def test_every_later_access_of_a_stopped_operation_fails_too() -> None:
    tx = transaction()
    for act in (lambda: tx.get(OTHER), lambda: tx.get(SEAT), lambda: tx.put(SEAT, 1), tx.step):
        with pytest.raises(BaseException, match=r"^operation 'reserve' read \('seat', 2\)"):
            act()


def test_accesses_within_the_footprint_succeed() -> None:
    tx = transaction()
    tx.add(SEAT, 4)
    tx.put(("seat", 1, "row"), "c")
    tx.delete(("seat", 1, "row"))

    assert tx.get(SEAT) == 5
    assert tx.pick(PRICE, 0) == (None,)
    assert list(tx.scan(("price",))) == [(PRICE, 3)]
    assert list(tx.scan(("seat", 1), limit=1)) == [(SEAT, 5)]
    assert list(tx.scan(start="b", stop="a")) == [], "an empty range touches nothing"
    assert tx.close(Outcome()).outcome == Outcome()


def test_a_long_key_is_quoted_in_part() -> None:
    error = run(lambda tx: tx.get("x" * 10_000)).outcome.error
    assert error is not None
    assert len(error) < 1000
