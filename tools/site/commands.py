"""The command line, from what its commands say of themselves."""

import inspect
import re
from collections.abc import Iterator

import click

from creekdb.cli.app import command as creek_command
from tools.site.telling import MissingDocstring


def commands() -> str:
    """All of it, in Markdown."""
    context = click.Context(creek_command, info_name="creek")
    return "\n\n".join((_help(creek_command, "creek"), *_below(creek_command, context, 2)))


def _below(group: click.Group, context: click.Context, level: int) -> Iterator[str]:
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if found.hidden:
            continue
        inner = click.Context(found, info_name=name, parent=context)
        path = inner.command_path
        yield f"{'#' * level} `{path}` {{ #{path.replace(' ', '-')} }}"
        yield f"```text\n{' '.join(inner.get_usage().split()).removeprefix('Usage: ')}\n```"
        yield _help(found, path)
        options = _options(found, path)
        if options:
            yield options
        if isinstance(found, click.Group):
            yield from _below(found, inner, level + 1)


def _help(found: click.Command, path: str) -> str:
    if not found.help:
        raise MissingDocstring(f"{path} has no help text")
    parts = []
    for paragraph in inspect.cleandoc(found.help).split("\n\n"):
        if paragraph.startswith("\b"):
            head, _, rest = paragraph.removeprefix("\b").strip("\n").partition("\n")
            parts.append(f"{head}\n\n```text\n{_outdented(rest)}\n```")
        else:
            parts.append(" ".join(paragraph.split()))
    return "\n\n".join(parts)


def _outdented(text: str) -> str:
    return "\n".join(line.removeprefix("  ") for line in text.rstrip().splitlines())


def _options(found: click.Command, path: str) -> str:
    lines = []
    for option in found.params:
        if not isinstance(option, click.Option) or option.hidden or option.name == "help":
            continue
        names = ", ".join((*option.opts, *option.secondary_opts))
        if not option.help:
            raise MissingDocstring(f"{path} {names} has no help text")
        metavar = "" if option.is_flag else f" {_metavar(option, found)}"
        told = re.sub(r"\s+", " ", option.help)
        lines.append(f"| `{names}{metavar}` | {told.replace('|', '&#124;')} | {_default(option)} |")
    if not lines:
        return ""
    return "\n".join(("| option | | default |", "|---|---|---|", *lines))


def _metavar(option: click.Option, found: click.Command) -> str:
    return option.make_metavar(click.Context(found)).replace("|", "\\|")


def _default(option: click.Option) -> str:
    default = option.default
    if not isinstance(default, str | int | float | tuple) or isinstance(default, bool):
        return ""
    text = ", ".join(map(str, default)) if isinstance(default, tuple) else str(default)
    return f"`{text}`" if text else ""
