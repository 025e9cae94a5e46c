"""Command-line parameters declared by the signature of a function.

The name, the type and the default of a parameter are those of the signature.

    class Target(NamedTuple):
        addresses: tuple[str, ...] = option("Client address.", flag="--at")

    @click.command()
    @declared
    def call(operation: str, *, timeout: float = option("Seconds.", 10.0), target: Target) -> int:

A positional parameter is an argument of the command, a keyword parameter an option. A `NamedTuple`
is a group of options, which several commands can share. A boolean is a flag, a tuple a parameter
that may be repeated, and a `Literal` a choice. `**others` receives options of other decorators.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import click


class _Declaration(NamedTuple):
    settings: Mapping[str, Any] = {}
    flag: str | None = None


def option(
    help: str, default: Any = None, type: Any = None, *, flag: str | None = None, **settings: Any
) -> Any:
    """Declare an option. Its help shows the default, unless `show_default` is False.

    `type`: parameter type of click, if the annotation is not sufficient. `flag`: the option as on
    the command line, if it differs from the name. `settings`: as for `click.option`.
    """
    settings["help"] = help
    if type is not None:
        settings["type"] = type
    if default is not None:
        settings = {"show_default": True, "default": default, **settings}
    return _Declaration(settings, flag)


def argument(**settings: Any) -> Any:
    """Declare an argument whose annotation is not sufficient, as for `click.argument`."""
    return _Declaration(settings)


def declared(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Add the parameters of the function to its command.

    The function returns the exit code of the command, or None for success.
    """
    groups: dict[str, type[tuple[Any, ...]]] = {}

    @wraps(function)
    def callback(**values: Any) -> int | None:
        for name, group in reversed(groups.items()):  # a group may contain others
            fields = inspect.signature(group).parameters
            values[name] = group(**{field: values.pop(field) for field in fields})
        return function(**values)

    command: Callable[..., int | None] = callback
    for decorate in reversed(list(_decorators(function, groups))):
        command = decorate(command)
    return command


def _decorators(
    declaring: Callable[..., Any], groups: dict[str, type[tuple[Any, ...]]]
) -> Iterator[Callable[[Any], Any]]:
    """Yield click's decorators of a function or a group; add the groups that occur to `groups`."""
    hints = get_type_hints(declaring)
    for name, parameter in inspect.signature(declaring).parameters.items():
        hint, given = hints[name], parameter.default
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        if hasattr(hint, "_fields"):
            groups[name] = hint
            yield from _decorators(hint, groups)
        elif inspect.isclass(declaring) or parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            flag = given.flag or f"--{name.replace('_', '-')}"
            yield click.option(*flag.split(), name, **{**option_settings(hint), **given.settings})
        else:
            settings = _inferred_settings(hint, {"nargs": -1})
            extra = {} if given is parameter.empty else given.settings
            yield click.argument(name, **{**settings, **extra})


def option_settings(hint: Any) -> dict[str, Any]:
    """Return the settings of `click.option` for a value of this type."""
    settings = _inferred_settings(hint, {"multiple": True})
    if settings["type"] is bool:
        return {"is_flag": True, "default": None if "required" in settings else False}
    return settings


def _inferred_settings(hint: Any, repeated: dict[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    alternatives = get_args(hint)
    if NoneType in alternatives:
        hint = next(each for each in alternatives if each is not NoneType)
        settings["required"] = False
    if get_origin(hint) is tuple:
        hint = get_args(hint)[0]
        settings |= repeated
    if get_origin(hint) is Literal:
        hint = click.Choice(get_args(hint))
    return {**settings, "type": click.Path(path_type=Path) if hint is Path else hint}
