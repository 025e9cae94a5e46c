"""Clauses of statements that change rows.

SQLite cannot change virtual tables in all ways that Creek supports. So `parse` splits such a
statement at its top-level keywords, and keeps every expression verbatim. The engine evaluates the
parts as queries, and writes the rows itself. A statement was validated by SQLite before.

Parameters are numbered first (`number_parameters`), as SQLite would number them. Every part then
takes the parameters of the whole statement.
"""

from collections.abc import Container, Sequence
from typing import Final, NamedTuple

from creekdb.errors import SqlError, SqlParameterError, SqlSyntaxError, SqlUnsupported
from creekdb.sql.tokens import (
    Token,
    TokenKind,
    find_word,
    quote_name,
    source,
    split_at_commas,
    statement_tokens,
    tokenize,
)

PARAMETERS_MAX: Final = 32_766
"""Greatest number of a parameter, as in SQLite."""
QUERY_WORDS: Final = frozenset(("SELECT", "VALUES", "PRAGMA", "EXPLAIN"))
"""Leading words of statements that only read."""


class NumberedText(NamedTuple):
    """Statement whose parameters are all of the form ?N."""

    text: str
    size: int
    """Greatest number of a parameter."""
    names: dict[str, int]
    """Numbers of the named parameters, without their prefix."""


def number_parameters(text: str) -> NumberedText:
    """Replace every parameter by its number."""
    parts: list[str] = []
    names: dict[str, int] = {}
    count, position = 0, 0
    for token in statement_tokens(text):
        if token.kind is not TokenKind.PARAMETER:
            continue
        if token.text == "?":
            number = count + 1
        elif token.text[0] == "?":
            digits = token.text[1:].lstrip("0")
            is_long = len(digits) > len(str(PARAMETERS_MAX))
            number = PARAMETERS_MAX + 1 if is_long else int(digits or "0")
        else:
            number = names.setdefault(token.text[1:], count + 1)
        if not 1 <= number <= PARAMETERS_MAX:
            message = f"variable number must be between ?1 and ?{PARAMETERS_MAX}"
            raise SqlSyntaxError(message, text, token.start)
        count = max(count, number)
        parts += (text[position : token.start], f"?{number}")
        position = token.stop
    return NumberedText("".join((*parts, text[position:])), count, names)


def bind(
    numbered: NumberedText, parameters: Sequence[object], named: dict[str, object]
) -> tuple[object, ...]:
    """Return the values of ?1, ?2, … or raise `SqlParameterError`."""
    if not named:
        if len(parameters) != numbered.size:
            raise SqlParameterError(
                f"the statement takes {numbered.size} parameters, but {len(parameters)} were given"
            )
        return tuple(parameters)
    if parameters or len(numbered.names) != numbered.size:
        raise SqlParameterError(
            "positional and named parameters cannot be mixed; use one kind in the statement and "
            "in the call"
        )
    for name in numbered.names:
        if name not in named:
            raise SqlParameterError(f"the parameter '{name}' of the statement was not given")
    for name in named:
        if name not in numbered.names:
            raise SqlParameterError(f"the statement has no parameter '{name}'")
    return tuple([named[name] for name in numbered.names])


def greatest_parameter(text: str) -> int:
    """Return the greatest number of a parameter ?N in `text`, or 0."""
    tokens = tokenize(text)
    numbers = [int(each.text[1:]) for each in tokens if each.kind is TokenKind.PARAMETER]
    return max(numbers, default=0)


def has_subquery_in_list(text: str) -> bool:
    """True if `text` has an IN whose right side is a subquery or a table."""
    tokens = tokenize(text)
    for index, token in enumerate(tokens):
        if token.word == "IN":
            following = tokens[index + 1 : index + 3]
            opens = bool(following) and following[0].text == "("
            if not opens or following[-1].word in ("SELECT", "VALUES", "WITH"):
                return True
    return False


def has_cast(text: str) -> bool:
    """True if `text` has a CAST, whose value has a type."""
    return any(token.word == "CAST" for token in tokenize(text))


def has_row_value_in_list(text: str) -> bool:
    """True if `text` has an IN between a row value and a SELECT or a table."""
    tokens = tokenize(text)
    for index, token in enumerate(tokens):
        if token.word == "IN" and index and tokens[index - 1].text == ")":
            following = tokens[index + 1 : index + 3]
            opens = bool(following) and following[0].text == "("
            if not opens or following[-1].word in ("SELECT", "WITH"):
                return True
    return False


_RANGE_OPERATORS: Final = frozenset(("<", "<=", ">", ">="))
_FIXED_KINDS: Final = (TokenKind.LITERAL, TokenKind.PARAMETER)


def has_range_between_columns(text: str) -> bool:
    """True unless a literal or parameter is an operand of each range comparison in `text`.

    A column with numeric affinity may hold a text. In a comparison with it, SQLite converts the
    other column to a number, so that the order of the texts is not that of the comparison.
    """
    tokens = tokenize(text)

    def is_fixed(index: int) -> bool:
        if 0 <= index < len(tokens) and tokens[index].text in ("+", "-"):
            index += 1
        return 0 <= index < len(tokens) and tokens[index].kind in _FIXED_KINDS

    for index, token in enumerate(tokens):
        if token.text in _RANGE_OPERATORS:
            if not (is_fixed(index - 1) or is_fixed(index + 1)):
                return True
        elif token.word == "BETWEEN":
            found = find_word(tokens, index, "AND", depth=token.depth)
            if found is None or not (is_fixed(index + 1) and is_fixed(found + 1)):
                return True
    return False


_UNBOUNDED: Final = frozenset(("WITH", "JOIN", "OVER"))
_AFTER_TABLE: Final = frozenset(("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT"))


def is_bounded(text: str, views: Container[str]) -> bool:
    """True if the work for a query is proportional to its text and the rows of one table.

    It then has one SELECT from one table, or VALUES. `views` are lower-case names. A read of a row
    is a step of the operation, so the instructions of such a query need not be counted.
    """
    tokens = tokenize(text)
    words = [token.word for token in tokens]
    if not _UNBOUNDED.isdisjoint(words) or words.count("SELECT") > 1:
        return False
    if any(token.name.lower() in views for token in tokens):
        return False  # wherever a view is named, also as in `x IN view` or `main.view`
    for index, word in enumerate(words):
        if word == "IN" and tokens[index + 1].text != "(":
            return False  # a table or a function that yields rows
        if word == "FROM" and words[index - 1] != "DISTINCT":  # not `IS DISTINCT FROM`
            rest = tokens[index + 1 :]
            end = next((at for at, each in enumerate(rest) if each.word in _AFTER_TABLE), len(rest))
            if any(token.text in (",", "(") for token in rest[:end]):
                return False
    return True


class Assignments(NamedTuple):
    """SET clause: the assigned columns, and one expression for each."""

    columns: tuple[str, ...]
    expressions: tuple[str, ...]


class Upsert(NamedTuple):
    """One ON CONFLICT clause."""

    target: tuple[str, ...] | None
    """Columns of the unique constraint, None for any."""
    assignments: Assignments | None
    """None for DO NOTHING."""
    where: str


class Target(NamedTuple):
    """Table that a statement changes."""

    prefix: str
    """WITH clause, or ''."""
    table: str
    alias: str
    resolution: str
    """Word after OR: ABORT, FAIL, IGNORE or REPLACE."""


class Insert(NamedTuple):
    target: Target
    columns: tuple[str, ...] | None
    source: str | None
    """Query of the rows, None for DEFAULT VALUES."""
    upserts: tuple[Upsert, ...]
    returning: str


class Update(NamedTuple):
    target: Target
    assignments: Assignments
    origin: str
    """FROM clause without its keyword, or ''."""
    where: str
    returning: str


class Delete(NamedTuple):
    target: Target
    where: str
    returning: str


Change = Insert | Update | Delete


class StatementReader:
    """Tokens of one statement, read from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = statement_tokens(text)
        self.position = 0

    @property
    def word(self) -> str:
        """Keyword at the position, or ''."""
        return self.tokens[self.position].word if self.position < len(self.tokens) else ""

    @property
    def symbol(self) -> str:
        """Text at the position, or ''."""
        return self.tokens[self.position].text if self.position < len(self.tokens) else ""

    def accept(self, *words: str) -> bool:
        """Read these keywords if they follow."""
        following = self.tokens[self.position : self.position + len(words)]
        if tuple([token.word for token in following]) != words:
            return False
        self.position += len(words)
        return True

    def take(self) -> Token:
        if self.position == len(self.tokens):
            raise SqlSyntaxError("incomplete input", self.text, len(self.text.rstrip()))
        token = self.tokens[self.position]
        self.position += 1
        return token

    def take_name(self) -> str:
        """Read a table name, with or without the schema `main`."""
        name = self.take().name
        if self.symbol == ".":
            self.position += 1
            if name.lower() != "main":
                raise SqlUnsupported(
                    f"there is no database '{name}'; omit the name of the database"
                )
            name = self.take().name
        return name

    def take_until(self, *words: str) -> str:
        """Read the text up to the first of these top-level keywords, or to the end."""
        found = find_word(self.tokens, self.position, *words)
        stop = len(self.tokens) if found is None else found
        taken = source(self.text, self.tokens[self.position : stop])
        self.position = stop
        return taken

    def take_parenthesised(self) -> Sequence[Token]:
        """Read a list in parentheses and return the tokens between these."""
        depth = self.take().depth
        start = self.position
        while self.tokens[self.position].depth != depth:
            self.position += 1
        self.position += 1
        return self.tokens[start : self.position - 1]


def leading_word(text: str) -> str:
    """Return the keyword that determines the kind of a statement, after a WITH clause."""
    reader = StatementReader(text)
    _skip_with(reader)
    return reader.word


def find_leading_word(text: str) -> str:
    """Return the leading word, or '' for a text with an error, which the engine reports."""
    try:
        return leading_word(text)
    except (SqlError, IndexError):
        return ""


def parse(text: str) -> Change:
    """Return the clauses of an INSERT, REPLACE, UPDATE or DELETE."""
    reader = StatementReader(text)
    prefix = _skip_with(reader)
    if reader.accept("INSERT") or reader.word == "REPLACE":
        return _parse_insert(reader, prefix)
    if reader.accept("UPDATE"):
        return _parse_update(reader, prefix)
    reader.accept("DELETE")
    reader.accept("FROM")
    target = _target(reader, prefix, "ABORT")
    _skip_index_hint(reader)
    where = _where(reader, "RETURNING")
    return Delete(target, where, _returning(reader))


def _skip_with(reader: StatementReader) -> str:
    if reader.word != "WITH":
        return ""
    return reader.take_until("SELECT", "VALUES", "INSERT", "REPLACE", "UPDATE", "DELETE")


def _target(reader: StatementReader, prefix: str, resolution: str) -> Target:
    table = reader.take_name()
    alias = reader.take().name if reader.accept("AS") else table
    return Target(prefix, table, alias, resolution)


def _resolution(reader: StatementReader) -> str:
    if not reader.accept("OR"):
        return "ABORT"
    word = reader.take().word
    if word == "ROLLBACK":
        raise SqlUnsupported(
            "OR ROLLBACK is not supported; an operation that raises has no effect, write OR ABORT"
        )
    return word


def _skip_index_hint(reader: StatementReader) -> None:
    if reader.accept("INDEXED", "BY"):
        reader.take()
    else:
        reader.accept("NOT", "INDEXED")


def _where(reader: StatementReader, *ends: str) -> str:
    return reader.take_until(*ends) if reader.accept("WHERE") else ""


def _returning(reader: StatementReader) -> str:
    return reader.take_until() if reader.accept("RETURNING") else ""


def _names(tokens: Sequence[Token]) -> tuple[str, ...]:
    depth = tokens[0].depth
    return tuple([part[0].name for part in split_at_commas(tokens, depth)])


def _parse_insert(reader: StatementReader, prefix: str) -> Insert:
    resolution = "REPLACE" if reader.accept("REPLACE") else _resolution(reader)
    reader.accept("INTO")
    target = _target(reader, prefix, resolution)
    columns = _names(reader.take_parenthesised()) if reader.symbol == "(" else None
    if reader.accept("DEFAULT", "VALUES"):
        return Insert(target, columns, None, (), _returning(reader))
    start = reader.position
    while reader.position < len(reader.tokens) and not _is_upsert(reader):
        if reader.word == "RETURNING" and reader.tokens[reader.position].depth == 0:
            break
        reader.position += 1
    rows = source(reader.text, reader.tokens[start : reader.position])
    upserts: list[Upsert] = []
    while reader.accept("ON", "CONFLICT"):
        upserts.append(_parse_upsert(reader))
    return Insert(target, columns, rows, tuple(upserts), _returning(reader))


def _is_upsert(reader: StatementReader) -> bool:
    following = reader.tokens[reader.position : reader.position + 3]
    return (
        len(following) == 3
        and following[0].depth == 0
        and (following[0].word, following[1].word) == ("ON", "CONFLICT")
        and (following[2].text == "(" or following[2].word == "DO")
    )


def _parse_upsert(reader: StatementReader) -> Upsert:
    target = None
    if reader.symbol == "(":
        tokens = reader.take_parenthesised()
        target = _names(tokens)
        if any(len(part) > 1 for part in split_at_commas(tokens, tokens[0].depth)):
            raise SqlUnsupported(
                "a conflict target with COLLATE or an expression is not supported; "
                "list the columns of a UNIQUE constraint"
            )
        if reader.word == "WHERE":
            raise SqlUnsupported(
                "a conflict target with WHERE is not supported; "
                "list the columns of a UNIQUE constraint"
            )
    reader.accept("DO")
    if reader.accept("NOTHING"):
        return Upsert(target, None, "")
    reader.accept("UPDATE")
    reader.accept("SET")
    assignments = _assignments(reader, "WHERE", "ON", "RETURNING")
    where = _where(reader, "ON", "RETURNING")
    return Upsert(target, assignments, where)


def _parse_update(reader: StatementReader, prefix: str) -> Update:
    target = _target(reader, prefix, _resolution(reader))
    _skip_index_hint(reader)
    reader.accept("SET")
    assignments = _assignments(reader, "FROM", "WHERE", "RETURNING")
    origin = reader.take_until("WHERE", "RETURNING") if reader.accept("FROM") else ""
    where = _where(reader, "RETURNING")
    return Update(target, assignments, origin, where, _returning(reader))


def _assignments(reader: StatementReader, *ends: str) -> Assignments:
    columns: list[str] = []
    expressions: list[str] = []
    found = find_word(reader.tokens, reader.position, *ends)
    stop = len(reader.tokens) if found is None else found
    tokens = reader.tokens[reader.position : stop]
    reader.position = stop
    for part in split_at_commas(tokens, 0):
        equals = next(at for at, token in enumerate(part) if token.text == "=" and not token.depth)
        value = part[equals + 1 :]
        if part[0].text == "(":
            names = _names(part[1 : equals - 1])
            columns += names
            expressions += _row_value(reader.text, value, names)
        else:
            columns.append(part[0].name)
            expressions.append(source(reader.text, value))
    return Assignments(tuple(columns), tuple(expressions))


def _row_value(text: str, tokens: Sequence[Token], names: tuple[str, ...]) -> list[str]:
    """Return one expression for each column of a row value or of a subquery."""
    inner = tokens[1:-1]
    if inner[0].word in ("SELECT", "VALUES", "WITH"):
        columns = [f"creek_{number}" for number in range(len(names))]
        query = f"WITH creek_row({', '.join(columns)}) AS ({source(text, inner)})"
        return [f"({query} SELECT {quote_name(column)} FROM creek_row)" for column in columns]
    return [source(text, part) for part in split_at_commas(inner, inner[0].depth)]
