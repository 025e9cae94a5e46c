"""Answers without the numbers that orders got.

Two New-Orders of one district that are asked for at different replicas within the time that a
message takes are both answered before either replica knows of the other: with the same number, and
one of them gets another number in the end, whatever the scheme. That alone keeps tentative answers
from being as accurate as the paper has them (Section 6.3: all of them, with 20 warehouses), so what
it compares must leave the numbers out. Here is what is left.
"""

from typing import Any

ORDER_STATUS_NUMBER = 5


def without_numbers(operation: str, answer: Any) -> Any:
    """What a transaction told its client, but for the numbers of orders."""
    if type(answer) is not tuple:
        return answer
    match operation:
        case "new_order":
            return answer[1:]
        case "delivery":
            return tuple([number is not None for number in answer])
        case "order_status":
            return (*answer[:ORDER_STATUS_NUMBER], *answer[ORDER_STATUS_NUMBER + 1 :])
        case _:
            return answer
