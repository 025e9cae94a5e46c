"""Bank accounts that must not be overdrawn, with interest.

A withdrawal succeeds or fails depending on earlier deposits, and interest commutes with neither. So
almost every change of order changes a response.
>>> session = BANK.sequential()
>>> session.call("open", "ann", 100), session.call("open", "bob")
(100, 0)
>>> session.call("transfer", "ann", "bob", 30)
(70, 30)
>>> session.call("accrue", 10)
110
>>> session.call("deposit", "bob", 5), session.call("withdraw", "ann", 7)
(38, 70)
>>> session.call("total"), session.call("close", "bob"), session.call("total")
(108, 38, 70)

An operation that fails raises an error and changes nothing:

>>> session.call("withdraw", "ann", 500)
Traceback (most recent call last):
creekdb.execution.sequential.OperationRaised: InsufficientFunds: ann has 70, not 500
>>> session.call("balance", "ann")
70
"""

from random import Random
from typing import Any

from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction
from creekdb.protocol.values import Key

BANK = DataType("bank")


class InsufficientFunds(Exception):
    pass


def _account(name: str, *others: Any) -> list[Key]:
    return [("account", name)]


def _all_accounts(*arguments: Any) -> list[Key]:
    return [("account",)]


@BANK.operation(name="open", touches=_account)
def open_(tx: Transaction, name: str, amount: int = 0) -> int:
    """Open an account and return its balance."""
    if tx.get(("account", name)) is not None:
        raise ValueError(f"{name} has an account already")
    tx.put(("account", name), _money(amount))
    return amount


@BANK.operation(touches=_account)
def close(tx: Transaction, name: str) -> int:
    """Close an account and return the amount paid out."""
    paid = balance(tx, name)
    tx.delete(("account", name))
    return paid


@BANK.operation(touches=_account)
def deposit(tx: Transaction, name: str, amount: int) -> int:
    """Add `amount` to an account and return the new balance."""
    after = balance(tx, name) + _money(amount)
    tx.put(("account", name), after)
    return after


@BANK.operation(touches=_account)
def withdraw(tx: Transaction, name: str, amount: int) -> int:
    """Subtract `amount` from an account and return the new balance."""
    before = balance(tx, name)
    if before < _money(amount):
        raise InsufficientFunds(f"{name} has {before}, not {amount}")
    tx.put(("account", name), before - amount)
    return before - amount


@BANK.operation(touches=lambda giver, taker, amount: [("account", giver), ("account", taker)])
def transfer(tx: Transaction, giver: str, taker: str, amount: int) -> tuple[int, int]:
    """Move `amount` between accounts and return both balances; if it raises, neither changes."""
    withdraw(tx, giver, amount)
    after = deposit(tx, taker, amount)
    return balance(tx, giver), after


@BANK.operation(touches=_all_accounts)
def accrue(tx: Transaction, percent: int) -> int:
    """Add interest to every account (a fee if negative) and return the total."""
    if type(percent) is not int or percent < -100:
        raise ValueError(f"the rate must be a whole number of percent from -100, not {percent!r}")
    for key, before in tx.scan(("account",)):
        tx.put(key, before + before * percent // 100)
    return total(tx)


@BANK.operation(readonly=True, touches=_account)
def balance(tx: Transaction, name: str) -> int:
    """Return the balance of an account; raise `LookupError` if it does not exist."""
    found: int | None = tx.get(("account", name))
    if found is None:
        raise LookupError(f"{name} has no account")
    return found


@BANK.operation(readonly=True, touches=_all_accounts)
def total(tx: Transaction) -> int:
    """Return the sum of all balances."""
    return sum(amount for _, amount in tx.scan(("account",)))


def _money(amount: int) -> int:
    if type(amount) is not int or amount < 0:
        raise ValueError(f"the amount must be a whole number from 0, not {amount!r}")
    return amount


def sample(random: Random) -> tuple[str, tuple[Any, ...]]:
    """Draw an operation on three accounts; some fail for a missing account or low funds."""
    name, other = random.sample(("ann", "bob", "cat"), 2)
    amount = random.randrange(1, 100)
    (chosen,) = random.choices(
        ("open", "close", "deposit", "withdraw", "transfer", "accrue", "balance", "total"),
        (10, 2, 20, 18, 20, 10, 10, 10),
    )
    match chosen:
        case "open" | "deposit" | "withdraw":
            return chosen, (name, amount)
        case "close" | "balance":
            return chosen, (name,)
        case "transfer":
            return chosen, (name, other, amount)
        case "accrue":
            return chosen, (random.randrange(-20, 21),)
        case _:
            return chosen, ()
