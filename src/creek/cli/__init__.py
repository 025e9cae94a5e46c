"""The `creek` command: composes the rooms, decides nothing."""

from creek.cli.app import main

__all__ = ["main"]
