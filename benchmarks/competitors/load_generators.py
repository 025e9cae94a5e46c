"""Load generators of competitors: execution with a timeout, and common errors."""

import re
import subprocess
from collections.abc import Mapping, Sequence

import click


class GeneratorFailed(click.ClickException):
    """A load generator failed."""


def run_generator(
    command: Sequence[str], name: str, timeout_s: float, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command with a timeout; errors refer to it as `name`."""
    try:
        return subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env=env,
        )
    except subprocess.TimeoutExpired as error:
        raise GeneratorFailed(f"{name} timed out after {timeout_s:.0f} s") from error
    except OSError as error:
        raise GeneratorFailed(f"cannot run {command[0]}: {error.strerror or error}") from error


def unreadable_report(name: str, text: str) -> GeneratorFailed:
    """Return the error for a report in an unknown format."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]
    last = lines[-1] if lines else "nothing"
    return GeneratorFailed(f"cannot read the report of {name}; it ends with: {last}")
