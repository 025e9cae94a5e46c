"""Check the English of docstrings, comments, messages and documentation.

`make check` runs this script. It reports

- a text that opens with a relative clause, a bare reference or a question,
- a sentence of more than 30 words,
- a household word that once stood for a part of the system,
- a package with more than 3 of `who`, `what`, `whoever`, `nobody`, `somebody` per 1,000 words.

The limits are a floor: a text can pass them and still be hard to read. `--table` prints the words
and the rate of every package.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCES: Final = ("src/creekdb", "tests", "benchmarks", "tools")
DOCUMENTS: Final = ("*.md", "docs/**/*.md")

RATE_MAX: Final = 3.0
"""Upper bound for the counted pronouns per 1,000 words of a package."""
SENTENCE_WORDS_MAX: Final = 30
MESSAGE_WORDS_MIN: Final = 4
"""A string literal with fewer words is taken for an identifier or a format, not for a message."""

COUNTED: Final = re.compile(r"\b(?:who|what|whoever|nobody|somebody)\b", re.IGNORECASE)
HOUSEHOLD: Final = re.compile(r"\b(?:house|room|door|desk)s?\b", re.IGNORECASE)
HEADLESS: Final = re.compile(
    r"(?:Who|Whoever|Whom|Whose|What|Whatever|Which|How|Why|Where|Nobody|Somebody|Those|The same)\b"
    r"|One (?:that|who|of (?:these|those|them))\b"
)
"""Openings that have no noun as their subject (a relative clause, a pronoun)."""
FRAGMENT: Final = re.compile(
    r"(?:Of|Before|After|Behind|Beside|By|For|From|In|Since|To|Until|With) "
    r"(?:it|that|them|these|this|those|all|all of (?:it|them|these|those))[.,:;]"
)
"""Openings that only refer to the line above."""
QUESTION: Final = re.compile(
    r"(?:Is|Are|Was|Were|Does|Do|Did|Has|Have|Had|Can|Could|May|Must|Should|Will)\b[^.!]*\?"
)

_CODE_SPAN: Final = re.compile(r"``.*?``|`[^`]*`", re.DOTALL)
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_PRAGMA: Final = re.compile(r"#\s*(?:noqa|type:|pragma|fmt:|!|mypy:|ruff:)")
_WORD: Final = re.compile(r"[^\W_][\w'’-]*")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])[\"')*]*\s+|\n\s*\n")
_LIST_ITEM: Final = re.compile(r"\n\s*(?:[-*]|\d+\.)\s+")
_ABBREVIATION: Final = re.compile(r"\b(e\.g|i\.e|cf|vs|etc|al|Fig|Sec)\.")


class Text(NamedTuple):
    """A piece of prose and its position."""

    path: Path
    line: int
    kind: str
    """`docstring`, `comment`, `message` or `document`."""
    words: str


class Problem(NamedTuple):
    """A violation of one rule."""

    path: Path
    line: int
    rule: str
    excerpt: str

    def describe(self) -> str:
        """Return the problem as one line for the terminal."""
        return f"{self.path}:{self.line}: {self.rule}: {self.excerpt}"


def python_texts(path: Path, source: str) -> Iterator[Text]:
    """Yield the docstrings, comments and messages of a Python file."""
    tree = ast.parse(source)
    docstrings = _docstrings(tree)
    formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in formatted for part in ast.walk(node)}
    for joined in formatted:
        yield from _message(path, joined.lineno, _formatted(joined))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if id(node) in docstrings:
            yield Text(path, node.lineno, "docstring", _without_examples(node.value))
        elif id(node) not in parts:
            yield from _message(path, node.lineno, node.value)
    yield from _comments(path, source)


def _docstrings(tree: ast.Module) -> set[int]:
    """Return the string nodes that document a module, class, function or attribute."""
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def _formatted(node: ast.JoinedStr) -> str:
    """Return the text of an f-string with `x` in place of every value."""
    return "".join(
        part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "x"
        for part in node.values
    )


def _message(path: Path, line: int, value: str) -> Iterator[Text]:
    """Yield `value` if it reads like a sentence for a person."""
    looks_like_code = re.search(r"[{}<>=\\]|\bdef \b|\bimport \b", value)
    if looks_like_code is None and len(_WORD.findall(value)) >= MESSAGE_WORDS_MIN:
        yield Text(path, line, "message", value)


def _comments(path: Path, source: str) -> Iterator[Text]:
    """Yield the comments of a file; consecutive lines form one text."""
    block: list[str] = []
    start = last = column = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or _PRAGMA.match(token.string):
            continue
        line, begins = token.start
        if block and (line != last + 1 or begins != column):
            yield Text(path, start, "comment", "\n".join(block))
            block = []
        if not block:
            start, column = line, begins
        block.append(token.string.lstrip("#").strip())
        last = line
    if block:
        yield Text(path, start, "comment", "\n".join(block))


def _without_examples(docstring: str) -> str:
    """Remove doctests, indented blocks and the preformatted blocks of click help (`\\b`)."""
    kept: list[str] = []
    margin = min(
        (len(line) - len(line.lstrip()) for line in docstring.splitlines()[1:] if line.strip()),
        default=0,
    )
    in_example = False
    for line in docstring.splitlines():
        if line.lstrip().startswith(">>>") or line.strip() == "\b":
            in_example = True
        elif not line.strip():
            in_example = False
        indented = len(line) - len(line.lstrip()) >= margin + 4
        kept.append("" if in_example or indented else line)
    return "\n".join(kept)


def document_texts(path: Path, source: str) -> Iterator[Text]:
    """Yield the paragraphs of a Markdown file without code blocks."""
    paragraph: list[str] = []
    start, in_code = 1, False
    for number, line in enumerate([*source.splitlines(), ""], 1):
        if line.lstrip().startswith(("```", "~~~")):
            in_code = not in_code
            line = ""
        ends = in_code or not line.strip() or line.lstrip().startswith(("#", "|", "!["))
        if ends and paragraph:
            yield Text(path, start, "document", "\n".join(paragraph))
            paragraph = []
        if in_code or not line.strip():
            continue
        if line.lstrip().startswith("|"):
            for cell in line.strip().strip("|").split("|"):
                yield Text(path, number, "document", cell.strip())
        elif not ends:
            if not paragraph:
                start = number
            paragraph.append(line)


def plain(words: str) -> str:
    """Replace code spans by `x` and links by their text."""
    return _ABBREVIATION.sub(r"\1", _LINK.sub(r"\1", _CODE_SPAN.sub("x", words)))


def sentences(words: str) -> Iterator[str]:
    """Yield the sentences of a text; paragraphs and list items end a sentence."""
    for item in _LIST_ITEM.split("\n" + plain(words)):
        for sentence in _SENTENCE_END.split(item):
            if sentence.strip():
                yield " ".join(sentence.split())


def problems_of(text: Text) -> Iterator[Problem]:
    """Yield the violations in one text."""
    opening = plain(text.words).lstrip(" \n*_").replace("\n", " ")
    if text.kind in ("docstring", "comment"):
        for rule, pattern in (
            ("opens without a subject", HEADLESS),
            ("opens with a fragment", FRAGMENT),
            ("opens with a question", QUESTION),
        ):
            if pattern.match(opening):
                yield Problem(text.path, text.line, rule, opening[:60])
    for found in HOUSEHOLD.finditer(text.words):
        yield Problem(text.path, text.line, "household word", found.group())
    for sentence in sentences(text.words):
        count = len(_WORD.findall(sentence))
        if count > SENTENCE_WORDS_MAX:
            rule = f"sentence of {count} words"
            yield Problem(text.path, text.line, rule, f"{sentence[:60]} …")


def package_of(path: Path) -> str:
    """Return the package that a file is counted with: `protocol`, `tests/unit`, `docs` …"""
    parts = path.parts
    if parts[:2] == ("src", "creekdb"):
        return parts[2] if len(parts) > 3 else "creekdb"
    if parts[0] == "tests":
        return "/".join(parts[:2]) if len(parts) > 2 else "tests"
    return parts[0] if len(parts) > 1 else "project"


class Rate(NamedTuple):
    """The counted pronouns of one package."""

    words: int
    pronouns: int

    @property
    def per_thousand(self) -> float:
        """Return the counted pronouns per 1,000 words."""
        return 1000 * self.pronouns / self.words if self.words else 0.0


def rates(texts: list[Text]) -> dict[str, Rate]:
    """Return the rate of every package."""
    words: defaultdict[str, int] = defaultdict(int)
    pronouns: defaultdict[str, int] = defaultdict(int)
    for text in texts:
        package = package_of(text.path)
        prose = plain(text.words)
        words[package] += len(_WORD.findall(prose))
        pronouns[package] += len(COUNTED.findall(prose))
    return {package: Rate(words[package], pronouns[package]) for package in sorted(words)}


def texts_below(root: Path) -> list[Text]:
    """Return all prose of the project."""
    found: list[Text] = []
    for top in SOURCES:
        for path in sorted((root / top).rglob("*.py")):
            found += python_texts(path.relative_to(root), path.read_text(encoding="utf-8"))
    for pattern in DOCUMENTS:
        for path in sorted(root.glob(pattern)):
            found += document_texts(path.relative_to(root), path.read_text(encoding="utf-8"))
    return found


def main(root: Path = ROOT, arguments: list[str] | None = None) -> int:
    """Check the project, or only the files under the given paths."""
    parser = argparse.ArgumentParser(description="Check the English of the project.")
    parser.add_argument("paths", nargs="*", help="report only problems below these paths")
    parser.add_argument("--table", action="store_true", help="print the rate of every package")
    options = parser.parse_args(arguments)
    texts = texts_below(root)
    failed = False
    for text in texts:
        if options.paths and not any(str(text.path).startswith(path) for path in options.paths):
            continue
        for problem in problems_of(text):
            failed = True
            print(problem.describe())
    for package, rate in rates(texts).items():
        if options.table:
            print(f"{package:<20} {rate.words:>7} words {rate.per_thousand:>6.1f} per 1,000")
        if rate.per_thousand > RATE_MAX and not options.paths:
            failed = True
            print(
                f"{package}: {rate.per_thousand:.1f} `who`, `what` … per 1,000 words; "
                f"at most {RATE_MAX:g}"
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
