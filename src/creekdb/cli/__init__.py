"""The `creek` command: composes the rooms, decides nothing."""

from creekdb.cli.app import main

__all__ = ["main"]
