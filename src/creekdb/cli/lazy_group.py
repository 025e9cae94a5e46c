"""Command groups that import a command only when it is used, to keep start-up fast."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """Group of lazily imported commands.

    `modules`: module below `creekdb.cli.commands` for each command name; it has the command under
    that name. `sections`: command names by help section.
    """

    def __init__(
        self,
        *args: Any,
        modules: Mapping[str, str],
        sections: Mapping[str, Sequence[str]],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._modules = modules
        self._sections = sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._modules})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands and cmd_name in self._modules:
            module = import_module(f"creekdb.cli.commands.{self._modules[cmd_name]}")
            self.add_command(getattr(module, cmd_name.replace("-", "_")), cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        widest = max(map(len, names))
        for title, members in self._sections.items():
            rows = [
                (f"{name:{widest}}", command.get_short_help_str(formatter.width))
                for name in members
                if (command := self.get_command(ctx, name)) is not None
            ]
            with formatter.section(title):
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args[0] not in names:
            for name in names:  # click suggests a similar one among the loaded commands
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)
