"""Statements whose results depend on the order in which SQLite visits rows.

Replicas agree on these results, because equal engines choose equal plans. But a new index, a new
version of SQLite or another wording of the statement may change them. Debug mode therefore reports
such statements.
"""

from collections.abc import Sequence
from typing import Final

from creekdb.errors import SqlSyntaxError
from creekdb.sql.tokens import Token, find_word, tokenize

_ORDERED_AGGREGATES: Final = frozenset(
    (
        "GROUP_CONCAT",
        "JSON_GROUP_ARRAY",
        "JSON_GROUP_OBJECT",
        "JSONB_GROUP_ARRAY",
        "JSONB_GROUP_OBJECT",
        "STRING_AGG",
    )
)
"""Aggregate functions whose results depend on the order of their values."""
_ORDERED_WINDOWS: Final = frozenset(
    ("FIRST_VALUE", "LAG", "LAST_VALUE", "LEAD", "NTH_VALUE", "NTILE", "ROW_NUMBER")
)
"""Window functions whose results depend on the order of the window."""


def find_order_warnings(text: str) -> tuple[str, ...]:
    """Return a warning for each part of a statement that lacks an ORDER BY."""
    try:
        tokens = tokenize(text)
    except SqlSyntaxError:
        return ()  # the statement fails
    warnings: list[str] = []
    for index, token in enumerate(tokens):
        word = token.word
        if word == "LIMIT" and _is_unordered_query(tokens, index):
            warnings.append("LIMIT without ORDER BY: the plan selects the rows; add ORDER BY")
        elif index + 1 == len(tokens) or tokens[index + 1].text != "(":
            continue
        elif word in _ORDERED_AGGREGATES and not _has_order(tokens, index + 1):
            name = token.text.lower()
            warnings.append(
                f"{name}() without ORDER BY: the plan orders the values; write {name}(… ORDER BY …)"
            )
        elif word in _ORDERED_WINDOWS and _has_unordered_window(tokens, index + 1):
            warnings.append(
                f"{token.text.lower()}() without ORDER BY: the plan orders the window; "
                "write OVER (ORDER BY …)"
            )
    return tuple(dict.fromkeys(warnings))


def _is_unordered_query(tokens: Sequence[Token], limit: int) -> bool:
    """True if the query with this LIMIT reads a table without ORDER BY."""
    depth = tokens[limit].depth
    words: set[str] = set()
    for token in reversed(tokens[:limit]):
        if token.depth < depth:
            break
        if token.depth == depth:
            words.add(token.word)
    return "FROM" in words and "ORDER" not in words


def _has_order(tokens: Sequence[Token], opening: int) -> bool:
    """True if there is an ORDER BY directly inside these parentheses."""
    closing = _closing(tokens, opening)
    found = find_word(tokens, opening, "ORDER", depth=tokens[opening].depth + 1)
    return found is not None and found < closing


def _has_unordered_window(tokens: Sequence[Token], opening: int) -> bool:
    """True if the function with these arguments has a window of its own without ORDER BY."""
    after = _closing(tokens, opening) + 1
    if after < len(tokens) and tokens[after].word == "FILTER":
        after = _closing(tokens, after + 1) + 1
    is_window = tuple([token.text.upper() for token in tokens[after : after + 2]]) == ("OVER", "(")
    return is_window and not _has_order(tokens, after + 1)


def _closing(tokens: Sequence[Token], opening: int) -> int:
    """Return the index of the parenthesis that closes the one at `opening`, or the last index."""
    depth = tokens[opening].depth if opening < len(tokens) else 0
    for index in range(opening + 1, len(tokens)):
        if tokens[index].depth == depth:
            return index
    return len(tokens) - 1
