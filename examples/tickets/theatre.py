"""Seats of a theatre. A seat is sold once."""

import creekdb

theatre = creekdb.DataType("theatre")


@theatre.operation
def buy(tx: creekdb.Transaction, seat: str, customer: str) -> str:
    """Sell a seat to a customer. Raises if another customer has it."""
    owner = tx.get(("seat", seat))
    if owner is not None:
        raise LookupError(f"seat {seat} belongs to {owner}")
    tx.put(("seat", seat), customer)
    return f"seat {seat} for {customer}"


@theatre.operation(readonly=True)
def owners(tx: creekdb.Transaction) -> dict[str, str]:
    """Return the customer of each sold seat."""
    return {str(seat): customer for (_, seat), customer in tx.scan(("seat",))}
