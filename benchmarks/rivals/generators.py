"""Programs that load a rival: they are run, and given up when they take too long."""

import re
import subprocess
from collections.abc import Mapping, Sequence

import click


class Failed(click.ClickException):
    """One did not do what it was asked for."""


def run(
    command: Sequence[str], what: str, patience_s: float, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`what` it is called where something is to be told of it."""
    try:
        return subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience_s,
            env=env,
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{what} takes more than {patience_s:.0f} s") from error
    except OSError as error:
        raise Failed(f"{command[0]} cannot be run: {error.strerror or error}") from error


def unreadable(what: str, text: str) -> Failed:
    """Its report is not what it should be."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]
    last = lines[-1] if lines else "nothing"
    return Failed(f"the report of {what} cannot be read; it ends with: {last}")
