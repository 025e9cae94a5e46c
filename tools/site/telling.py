"""What a piece of code tells of itself: its docstring, or a complaint that there is none."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any


class MissingDocstring(Exception):
    """Something public has no docstring."""


def docstring_of(thing: Any, name: str) -> str:
    """The docstring of `thing` itself, not one that it inherits, as Markdown."""
    given = vars(thing).get("__doc__") if inspect.isclass(thing) else getattr(thing, "__doc__", "")
    if not given or (inspect.isclass(thing) and given == _generated_docstring(thing)):
        raise MissingDocstring(f"{name} has no docstring: the reference would not tell what it is")
    return as_markdown(inspect.cleandoc(given))


def field_docstrings(owner: type) -> dict[str, str | None]:
    """The attributes that a class declares or its instances get, by name: the text below each, as
    Markdown, or None. In the order of the source."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found = dict(_docstrings_in(tree.body))
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            found.update(_docstrings_in(statement.body))
    return found


def _docstrings_in(body: list[ast.stmt]) -> Iterator[tuple[str, str | None]]:
    for statement, following in zip_longest(body, body[1:]):
        match statement:
            case ast.AnnAssign(target=target) | ast.Assign(targets=[target]):
                name = _attribute(target, annotated=isinstance(statement, ast.AnnAssign))
            case _:
                continue
        if name is None or name.startswith("_"):
            continue
        match following:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield name, as_markdown(inspect.cleandoc(text))
            case _:
                yield name, None


def _attribute(target: ast.expr, annotated: bool) -> str | None:
    match target:
        case ast.Name(id=name) if annotated:
            return name
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
        case _:
            return None


def as_markdown(docstring: str) -> str:
    """Examples become code, and so does what is indented; the rest is Markdown already."""
    parts: list[str] = []
    for paragraph in re.split(r"\n\s*\n", docstring):
        lines = paragraph.splitlines()
        example = textwrap.dedent(paragraph)
        if example.startswith(">>>"):
            parts.append(f"```pycon\n{example}\n```")
        elif all(line.startswith("    ") for line in lines):
            language = "text" if "├" in example or "└" in example else "python"
            parts.append(f"```{language}\n{example}\n```")
        else:
            parts.append(re.sub(r"^- ", "\n- ", paragraph, count=1, flags=re.MULTILINE))
    return "\n\n".join(parts).replace("```\n\n```pycon\n", "\n").replace("```\n\n```python\n", "\n")


def _generated_docstring(thing: type) -> str:
    """What NamedTuple says of a class that says nothing."""
    return f"{thing.__name__}({', '.join(getattr(thing, '_fields', ()))})"
