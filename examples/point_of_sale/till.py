"""Two tills write receipts, and charge one gift card."""

import os

import creekdb.dbapi
from creekdb.dbapi import Connection

PORT = int(os.environ.get("CREEK_PORT", "7100"))


def sell(till: Connection, name: str, basket: dict[str, int]) -> int:
    """Write a receipt with one weak transaction. Returns the total, in cents."""
    cursor = till.cursor(consistency="weak")
    total = 0
    for article, pieces in basket.items():
        cursor.execute("SELECT cents FROM article WHERE name = ?", (article,))
        ((cents,),) = cursor.fetchall()
        total += pieces * cents
        cursor.execute("UPDATE article SET stock = stock - ? WHERE name = ?", (pieces, article))
    cursor.execute("INSERT INTO receipt(till, cents) VALUES (?, ?)", (name, total))
    till.commit()
    return total


def charge(till: Connection, number: str, cents: int) -> str:
    """Charge a card with a strong transaction. Retries if another till was faster."""
    while True:
        try:
            ((balance,),) = till.execute(
                "SELECT cents FROM card WHERE number = ?", (number,)
            ).fetchall()
            if balance < cents:
                till.rollback()
                return f"refused, {balance} cents are left"
            change = "UPDATE card SET cents = cents - ? WHERE number = ?"
            till.execute(change, (cents, number))
            till.commit()
            return f"paid, {balance - cents} cents are left"
        except creekdb.dbapi.SerializationFailure:
            till.rollback()


with (
    creekdb.dbapi.connect(f"127.0.0.1:{PORT}") as first,
    creekdb.dbapi.connect(f"127.0.0.1:{PORT + 1}") as second,
):
    print("till 1:", sell(first, "till 1", {"apple": 5, "bread": 1}), "cents")
    print("till 2:", sell(second, "till 2", {"bread": 2}), "cents")
    print("card at till 1:", charge(first, "gift-1", 520))
    print("card at till 2:", charge(second, "gift-1", 640))
    query = "SELECT count(*), sum(cents) FROM receipt"
    print("receipts, cents:", *first.execute(query).fetchall()[0])
