"""A data type that takes a bit of everything."""

from typing import Any, Literal

from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction

ODD = DataType("odd")


@ODD.operation
def take(
    tx: Transaction,
    number: int,
    text: str,
    flag: bool = False,
    ratio: float = 0.5,
    blob: bytes = b"",
    pairs: list[tuple[str, int]] = [],  # noqa: B006 - as people write it
    table: dict[str, int | None] | None = None,
    color: Literal["red", "blue"] = "red",
) -> Any:
    """Answers what it got."""
    return number, text, flag, ratio, blob, tuple(pairs), table, color


@ODD.operation(readonly=True)
def count(tx: Transaction, *things: Any) -> int:
    return len(things)


@ODD.operation
def untyped(tx, thing):  # type: ignore[no-untyped-def]
    tx.put("thing", thing)
    return thing
