"""Data type of a cinema, for the tests of the test kit."""

from creekdb import DataType, Transaction

seats = DataType("seats")


@seats.operation
def book(tx: Transaction, seat: int, customer: str) -> int:
    owner = tx.get(seat, customer)
    if owner != customer:
        raise LookupError(f"booked by {owner}")
    tx.put(seat, customer)
    return seat


@seats.operation(readonly=True)
def owner_of(tx: Transaction, seat: int) -> str | None:
    owner: str | None = tx.get(seat)
    return owner
