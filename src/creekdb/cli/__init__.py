"""The `creek` command. It composes the other packages and contains no domain logic."""

from creekdb.cli.app import main

__all__ = ["main"]
