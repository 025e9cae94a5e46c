"""Reference of Python names: functions, and classes with their public members."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tools.site.docstrings import MissingDocstring, docstring_of, field_docstrings


class Shown(NamedTuple):
    """A function or a class of the reference."""

    thing: Any
    name: str
    hidden: frozenset[str] = frozenset()
    """Public members for other packages of Creek, which the reference omits."""
    constructed: bool = False
    """True if users call the class; its signature is then shown."""


def section(shown: Shown) -> str:
    """Return the section of a page, in Markdown."""
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
    """Yield public methods and properties in source order, including those of base classes."""
    seen: set[str] = set()
    for owner in thing.__mro__:
        if owner.__module__.partition(".")[0] != thing.__module__.partition(".")[0]:
            continue
        for name, member in vars(owner).items():
            plain = member.__func__ if isinstance(member, staticmethod | classmethod) else member
            is_callable = inspect.isfunction(plain) or isinstance(plain, property)
            if is_callable and not name.startswith("_") and name not in seen:
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
    """Return the signature for callers: one line, or one per parameter if that is too long."""
    full = inspect.signature(function)
    parameters = list(full.parameters.values())[1 if is_method else 0 :]
    text = _without_modules(str(full.replace(parameters=parameters)))
    if len(text) <= 80:
        return text
    lines = _parameter_lines([_without_modules(str(each)) for each in parameters], parameters)
    return_split = text.rpartition(") -> ")
    end = f") -> {return_split[2]}" if return_split[1] else ")"
    return "(\n" + "".join(f"    {line},\n" for line in lines) + end


def _parameter_lines(texts: list[str], parameters: Iterable[inspect.Parameter]) -> Iterator[str]:
    starred = False
    for text, parameter in zip(texts, parameters, strict=True):
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        yield text


def _without_modules(text: str) -> str:
    """Return the text without the modules of names."""
    text = re.sub(r"\b(?:typing|collections\.abc|creekdb(?:\.\w+)*)\.(?=[A-Z])", "", text)
    text = re.sub(r"'(\w+)'(?=$|[\],|)])", r"\1", text)  # a forward reference
    return text.replace("~", "").replace("'", '"')
