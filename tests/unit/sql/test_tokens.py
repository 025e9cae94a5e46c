import pytest

from creekdb.errors import SqlSyntaxError
from creekdb.sql.tokens import (
    TokenKind,
    find_word,
    quote_name,
    source,
    split_at_commas,
    statement_tokens,
    tokenize,
)


def test_tokens_have_the_kinds_of_sqlite() -> None:
    kinds = [
        (token.kind, token.text) for token in tokenize("a 'it''s' \"b\"\"\" [c] ?1 :d x'0A' ->>")
    ]

    assert kinds == [
        (TokenKind.WORD, "a"),
        (TokenKind.LITERAL, "'it''s'"),
        (TokenKind.NAME, '"b"""'),
        (TokenKind.NAME, "[c]"),
        (TokenKind.PARAMETER, "?1"),
        (TokenKind.PARAMETER, ":d"),
        (TokenKind.LITERAL, "x'0A'"),
        (TokenKind.OPERATOR, "->>"),
    ]


def test_names_lose_their_quotes() -> None:
    names = [token.name for token in tokenize('plain "a""b" `c` [d] \'e\'')]

    assert names == ["plain", 'a"b', "c", "d", "e"]


def test_comments_and_literals_hide_keywords() -> None:
    text = "SELECT '; WHERE' -- FROM\n, /* WHERE */ 1 FROM t"
    tokens = statement_tokens(text)

    assert [token.word for token in tokens if token.word] == ["SELECT", "FROM", "T"]
    assert find_word(tokens, 0, "WHERE") is None


def test_depth_counts_parentheses() -> None:
    tokens = tokenize("f(a, (b)) , c")

    assert [token.depth for token in tokens] == [0, 0, 1, 1, 1, 2, 1, 0, 0, 0]
    assert [source("f(a, (b)) , c", part) for part in split_at_commas(tokens, 0)] == [
        "f(a, (b))",
        "c",
    ]


def test_one_final_semicolon_is_allowed() -> None:
    assert len(statement_tokens("SELECT 1;")) == 2
    with pytest.raises(SqlSyntaxError, match=r"found more.*line 1, column 11"):
        statement_tokens("SELECT 1; SELECT 2")
    with pytest.raises(SqlSyntaxError, match="found none"):
        statement_tokens(" -- nothing\n;")


def test_an_unknown_character_is_reported_with_its_position() -> None:
    with pytest.raises(SqlSyntaxError, match=r'unrecognized token: "\^" \(line 2, column 3\)'):
        tokenize("SELECT\n1 ^ 2")


def test_quoted_names_are_read_back() -> None:
    assert tokenize(quote_name('a"b'))[0].name == 'a"b'
