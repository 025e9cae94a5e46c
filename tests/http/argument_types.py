"""Data type whose operations have parameters of all supported types."""

from typing import Any, Literal

from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction

ARGUMENTS = DataType("arguments")


@ARGUMENTS.operation
def take(
    tx: Transaction,
    number: int,
    text: str,
    flag: bool = False,
    ratio: float = 0.5,
    blob: bytes = b"",
    pairs: list[tuple[str, int]] = [],  # noqa: B006 - a common pattern in user code
    table: dict[str, int | None] | None = None,
    color: Literal["red", "blue"] = "red",
) -> Any:
    """Return the arguments."""
    return number, text, flag, ratio, blob, tuple(pairs), table, color


@ARGUMENTS.operation(readonly=True)
def count(tx: Transaction, *things: Any) -> int:
    return len(things)


@ARGUMENTS.operation
def untyped(tx, thing):  # type: ignore[no-untyped-def]
    tx.put("thing", thing)
    return thing
