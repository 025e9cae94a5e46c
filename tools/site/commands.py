"""Reference of the command line, generated from the help texts of its commands."""

import inspect
import re
from collections.abc import Iterator

import click

from creekdb.cli.app import command as creek_command
from tools.site.docstrings import MissingDocstring


def commands() -> str:
    """Return the whole reference as Markdown."""
    context = click.Context(creek_command, info_name="creek")
    return "\n\n".join((_help(creek_command, "creek"), *_subcommands(creek_command, context, 2)))


def _subcommands(group: click.Group, context: click.Context, level: int) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if command.hidden:
            continue
        subcontext = click.Context(command, info_name=name, parent=context)
        path = subcontext.command_path
        yield f"{'#' * level} `{path}` {{ #{path.replace(' ', '-')} }}"
        yield f"```text\n{' '.join(subcontext.get_usage().split()).removeprefix('Usage: ')}\n```"
        yield _help(command, path)
        options = _options(command, path)
        if options:
            yield options
        if isinstance(command, click.Group):
            yield from _subcommands(command, subcontext, level + 1)


def _help(command: click.Command, path: str) -> str:
    if not command.help:
        raise MissingDocstring(f"{path} has no help text")
    parts = []
    for paragraph in inspect.cleandoc(command.help).split("\n\n"):
        if paragraph.startswith("\b"):
            head, _, rest = paragraph.removeprefix("\b").strip("\n").partition("\n")
            parts.append(f"{head}\n\n```text\n{_dedented(rest)}\n```")
        else:
            parts.append(" ".join(paragraph.split()))
    return "\n\n".join(parts)


def _dedented(text: str) -> str:
    return "\n".join(line.removeprefix("  ") for line in text.rstrip().splitlines())


def _options(command: click.Command, path: str) -> str:
    lines = []
    for option in command.params:
        if not isinstance(option, click.Option) or option.hidden or option.name == "help":
            continue
        names = ", ".join((*option.opts, *option.secondary_opts))
        if not option.help:
            raise MissingDocstring(f"{path} {names} has no help text")
        metavar = "" if option.is_flag else f" {_metavar(option, command)}"
        help_text = re.sub(r"\s+", " ", option.help)
        lines.append(
            f"| `{names}{metavar}` | {help_text.replace('|', '&#124;')} | {_default(option)} |"
        )
    if not lines:
        return ""
    return "\n".join(("| option | | default |", "|---|---|---|", *lines))


def _metavar(option: click.Option, command: click.Command) -> str:
    return option.make_metavar(click.Context(command)).replace("|", "\\|")


def _default(option: click.Option) -> str:
    default = option.default
    if not isinstance(default, str | int | float | tuple) or isinstance(default, bool):
        return ""
    text = ", ".join(map(str, default)) if isinstance(default, tuple) else str(default)
    return f"`{text}`" if text else ""
