"""Limits of the commands. `main` takes others, so that tests need not wait."""

from typing import NamedTuple

import click


class CommandLimits(NamedTuple):
    refused_retry_s: float = 5.0
    """Time for which refused connections are retried, in seconds: the cluster may be starting."""
    notice_delay_s: float = 1.0
    """Delay before the notice that a response is pending, in seconds."""
    status_timeout_s: float = 2.0
    """Upper bound for the wait of `creek status` for a replica, in seconds."""
    probes_required_seeds: int = 2000
    """Number of seeds that are expected to fire every probe."""
    hash_seeds: tuple[str, ...] = ("1", "2")
    """Hash seeds of `creek simulate --debug`: the first one that this process does not have."""


def command_limits() -> CommandLimits:
    """Return the limits of the running command."""
    return click.get_current_context().find_object(CommandLimits) or CommandLimits()
