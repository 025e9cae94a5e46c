"""Commands that are imported when they are asked for: one needs little of what others need."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """`lazily`: by the name of a command, the module of this room that has it, under that name.
    `sections`: its commands as its help shows them, by title; without it, in alphabetical order."""

    def __init__(
        self,
        *args: Any,
        lazily: Mapping[str, str],
        sections: Mapping[str, Sequence[str]] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self._modules = lazily
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
        for title, members in (self._sections or {"Commands": names}).items():
            rows = [
                (f"{name:{widest}}", found.get_short_help_str(formatter.width))
                for name in members
                if (found := self.get_command(ctx, name)) is not None
            ]
            with formatter.section(title):
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args[0] not in names:
            for name in names:  # one of them is suggested
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)
