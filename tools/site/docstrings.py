"""Docstrings of classes, functions and attributes as Markdown; a missing one is an error."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any


class MissingDocstring(Exception):
    """A public name has no docstring."""


def docstring_of(thing: Any, name: str) -> str:
    """Return the own docstring of `thing`, not an inherited one, as Markdown."""
    text = vars(thing).get("__doc__") if inspect.isclass(thing) else getattr(thing, "__doc__", "")
    if not text or (inspect.isclass(thing) and text == _generated_docstring(thing)):
        raise MissingDocstring(f"{name} has no docstring: the reference requires one")
    return as_markdown(inspect.cleandoc(text))


def field_docstrings(owner: type) -> dict[str, str | None]:
    """Return the attributes that a class declares or sets in `__init__`, in source order, with the
    docstring below each as Markdown, or None."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
    assert isinstance(tree, ast.ClassDef)
    texts = dict(_docstrings_in(tree.body))
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            texts.update(_docstrings_in(statement.body))
    return texts


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
    """Return the docstring with examples and indented blocks as code; the rest is Markdown."""
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
    """Return the docstring that NamedTuple generates for a class without one."""
    return f"{thing.__name__}({', '.join(getattr(thing, '_fields', ()))})"
