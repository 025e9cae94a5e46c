"""Tokens of SQL text, by the lexical rules of SQLite.

The engine never interprets expressions: SQLite does. It only finds the clauses of a statement,
which requires tokens with their positions and nesting depth. Whitespace and comments are no tokens.
"""

import enum
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from creekdb.errors import SqlSyntaxError


class TokenKind(enum.Enum):
    """Lexical class of a token."""

    WORD = "word"
    """Keyword or identifier without quotes."""
    NAME = "name"
    """Identifier in double quotes, backticks or square brackets."""
    LITERAL = "literal"
    """String, blob or number."""
    PARAMETER = "parameter"
    OPERATOR = "operator"


class Token(NamedTuple):
    """One token, with its position in the text and its nesting depth in parentheses."""

    kind: TokenKind
    text: str
    start: int
    depth: int

    @property
    def stop(self) -> int:
        return self.start + len(self.text)

    @property
    def word(self) -> str:
        """Upper-case text of a keyword or identifier without quotes, otherwise ''."""
        return self.text.upper() if self.kind is TokenKind.WORD else ""

    @property
    def name(self) -> str:
        """Identifier without its quotes. A string literal counts, as in SQLite."""
        first = self.text[0]
        if self.kind is TokenKind.NAME or first == "'":
            close = "]" if first == "[" else first
            return self.text[1:-1].replace(close * 2, close)
        return self.text


_TOKEN: Final = re.compile(
    r"""
    (?P<space>[ \t\n\f\r]+ | --[^\n]*(?:\n|$) | /\*.*?(?:\*/|$))
  | (?P<literal>[xX]?'(?:[^']|'')*' | 0[xX][0-9a-fA-F_]+
      | (?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?)
  | (?P<name>"(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\])
  | (?P<parameter>\?\d* | [:@$\#][A-Za-z0-9_$\x80-\U0010ffff]+)
  | (?P<word>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*)
  | (?P<operator>->>|->|\|\||<<|>>|<=|>=|<>|==|!=|[-+*/%<>=!&|~(),.;])
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS: Final = {
    "literal": TokenKind.LITERAL,
    "name": TokenKind.NAME,
    "parameter": TokenKind.PARAMETER,
    "word": TokenKind.WORD,
    "operator": TokenKind.OPERATOR,
}


_CACHED_LENGTH_MAX: Final = 10_000


def tokenize(text: str) -> Sequence[Token]:
    """Return the tokens of `text`. Raise `SqlSyntaxError` for a character that starts none."""
    return _cached_tokens(text) if len(text) <= _CACHED_LENGTH_MAX else _tokenize(text)


def _tokenize(text: str) -> tuple[Token, ...]:
    tokens: list[Token] = []
    position, depth = 0, 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            # SQLite takes everything after an opening quote for the token.
            wrong = text[position:] if text[position] in "'\"`[" else text[position]
            raise SqlSyntaxError(f'unrecognized token: "{wrong}"', text, position)
        kind, found = match.lastgroup or "", match.group()
        if kind != "space":
            if found == ")":
                depth -= 1
            tokens.append(Token(_KINDS[kind], found, position, depth))
            if found == "(":
                depth += 1
        position = match.end()
    return tuple(tokens)


_cached_tokens: Final = lru_cache(maxsize=64)(_tokenize)
"""The compilation of a statement reads its tokens several times."""


def statement_tokens(text: str) -> Sequence[Token]:
    """Return the tokens of the only statement in `text`, without the final semicolon.

    Raise `SqlSyntaxError` if there is none, or more than one.
    """
    tokens = tokenize(text)
    ends = [index for index, token in enumerate(tokens) if token.text == ";"]
    if ends:
        rest = [token for token in tokens[ends[0] :] if token.text != ";"]
        if rest:
            raise SqlSyntaxError(
                "expected one statement, found more; pass each one separately",
                text,
                rest[0].start,
            )
        tokens = tokens[: ends[0]]
    if not tokens:
        raise SqlSyntaxError("expected a statement, found none", text, 0)
    return tokens


def find_word(tokens: Sequence[Token], start: int, *words: str, depth: int = 0) -> int | None:
    """Return the index of the first of these keywords at this depth, from index `start`."""
    for index in range(start, len(tokens)):
        if tokens[index].depth == depth and tokens[index].word in words:
            return index
    return None


def split_at_commas(tokens: Sequence[Token], depth: int) -> list[list[Token]]:
    """Split tokens at the commas of this depth."""
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.text == "," and token.depth == depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def source(text: str, tokens: Sequence[Token]) -> str:
    """Return the text from the first to the last of these tokens, comments included."""
    return text[tokens[0].start : tokens[-1].stop] if tokens else ""


def quote_name(name: str) -> str:
    """Return `name` as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
