"""Typed calls. `test_client_typing.py` runs type checkers on this file, and nothing executes it.

A line that ends in `# error` contains a deliberate mistake.
"""
# mypy: ignore-errors

from typing import assert_type

import creekdb
from creekdb.client import BlockingCall, Call, FinalOutcome

shop = creekdb.DataType("shop")


@shop.operation
def buy(tx: creekdb.Transaction, item: str, customer: str, pieces: int = 1) -> int:
    tx.add(("stock", item), -pieces)
    return pieces


@shop.operation(readonly=True)
def bought(tx: creekdb.Transaction, customer: str) -> list[str]:
    for name, _ in tx.scan("item"):
        assert_type(name, str)
    for key, _ in tx.scan():
        assert_type(key, str | int | tuple[str | int, ...])
    return [str(key[2]) for key, _ in tx.scan(("bought", customer))]


async def with_asyncio() -> None:
    async with creekdb.connect("127.0.0.1:7100", shop) as db:
        call = db.weak(buy, "jazz", "ann")
        assert_type(call, Call[int])
        assert_type(await call, int)
        assert_type(await call.tentative, int)
        assert_type(await call.final, FinalOutcome[int])
        assert_type(await db.strong(buy, "jazz", customer="ann", pieces=2), int)
        assert_type(await db.session().weak.after(call)(bought, "ann"), list[str])
        db.weak(buy, "jazz", 3)  # error
        db.weak(buy, "jazz")  # error
        db.weak(buy, "jazz", "ann", colour="red")  # error
        print(db.strong(bought, "ann").final.value)  # error
        text: str = await db.weak(buy, "jazz", "ann")  # error
        await db.weak.buy("jazz", "ann")
        await db.weak("buy", text)
        db.weak.within("soon")  # error
    opened = await creekdb.connect("127.0.0.1:7100", shop)
    assert_type(await opened.weak(buy, "jazz", "ann"), int)
    await opened.close()


def without_asyncio() -> None:
    with creekdb.connect("127.0.0.1:7100", shop) as db:
        assert_type(db.weak(buy, "jazz", "ann"), int)
        call = db.strong.begin(buy, "jazz", "ann")
        assert_type(call, BlockingCall[int])
        assert_type(call.final.value, int)
        db.strong(buy, "jazz", "ann", "two")  # error
        db.weak.begin(bought)  # error
    opened = creekdb.connect("127.0.0.1:7100", shop).open()
    assert_type(opened.weak(bought, "ann"), list[str])
    opened.close()


def without_a_cluster() -> None:
    machine = shop.sequential()
    assert_type(machine.call(buy, "jazz", "ann"), int)
    machine.call(buy, 1, "ann")  # error
    machine.call("buy", "jazz", "ann")
