"""Pages on Python names: functions, and classes with what is public of them."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tools.site.telling import MissingDocstring, docstring_of, field_docstrings


class Shown(NamedTuple):
    """A function or a class of the reference."""

    thing: Any
    name: str
    hidden: frozenset[str] = frozenset()
    """Public for other rooms of the house, and not for people."""
    constructed: bool = False
    """Do people call the class? Then it is told how."""


def section(shown: Shown) -> str:
    """Of a page, in Markdown."""
    thing, name = shown.thing, shown.name
    anchor = name.rpartition(".")[2]
    parts = [f"## `{name}` {{ #{anchor} }}"]
    if inspect.isclass(thing):
        if shown.constructed:
            parts.append(_code(anchor, vars(thing)["__init__"], is_method=True))
        parts.append(docstring_of(thing, name))
        parts += _members(shown, anchor)
    else:
        parts += [_code(anchor, thing, is_method=False), docstring_of(thing, name)]
    return "\n\n".join(parts)


def _members(shown: Shown, anchor: str) -> Iterator[str]:
    if shown.constructed and vars(shown.thing)["__init__"].__doc__:
        yield docstring_of(vars(shown.thing)["__init__"], shown.name)
    for name, text in field_docstrings(shown.thing).items():
        if name not in shown.hidden:
            if text is None:
                raise MissingDocstring(f"{shown.name}.{name} has no text below it")
            yield f"### `{name}` {{ #{anchor}.{name} }}\n\n{text}"
    for owner, name, member in _public(shown.thing):
        if name not in shown.hidden:
            yield _member(owner, name, member, anchor)


def _public(thing: type) -> Iterator[tuple[type, str, Any]]:
    """In the order of the source; of classes of ours that it comes from, too."""
    seen: set[str] = set()
    for owner in thing.__mro__:
        if owner.__module__.partition(".")[0] != thing.__module__.partition(".")[0]:
            continue
        for name, member in vars(owner).items():
            plain = member.__func__ if isinstance(member, staticmethod | classmethod) else member
            is_ours = inspect.isfunction(plain) or isinstance(plain, property)
            if is_ours and not name.startswith("_") and name not in seen:
                seen.add(name)
                yield owner, name, plain


def _member(owner: type, name: str, member: Any, anchor: str) -> str:
    text = docstring_of(member, f"{owner.__module__}.{owner.__qualname__}.{name}")
    head = f"### `{name}` {{ #{anchor}.{name} }}"
    if isinstance(member, property):
        return f"{head}\n\n{text}"
    return f"{head}\n\n{_code(name, member, is_method=True)}\n\n{text}"


def _code(name: str, function: Callable[..., Any], is_method: bool) -> str:
    is_async = inspect.iscoroutinefunction(function)
    return f"```python\n{'async ' if is_async else ''}{name}{signature(function, is_method)}\n```"


def signature(function: Callable[..., Any], is_method: bool) -> str:
    """As one calls it: one line, or one for each parameter where that is too long."""
    whole = inspect.signature(function)
    parameters = list(whole.parameters.values())[1 if is_method else 0 :]
    text = _plain(str(whole.replace(parameters=parameters)))
    if len(text) <= 80:
        return text
    lines = _split([_plain(str(each)) for each in parameters], parameters)
    arrow = text.rpartition(") -> ")
    end = f") -> {arrow[2]}" if arrow[1] else ")"
    return "(\n" + "".join(f"    {line},\n" for line in lines) + end


def _split(texts: list[str], parameters: Iterable[inspect.Parameter]) -> Iterator[str]:
    starred = False
    for text, parameter in zip(texts, parameters, strict=True):
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        yield text


def _plain(text: str) -> str:
    """Without the modules that names come from."""
    text = re.sub(r"\b(?:typing|collections\.abc|creekdb(?:\.\w+)*)\.(?=[A-Z])", "", text)
    text = re.sub(r"'(\w+)'(?=$|[\],|)])", r"\1", text)  # a type that is named before it is there
    return text.replace("~", "").replace("'", '"')
