"""What a replica takes over from a changed configuration while it runs."""

import ssl
from collections.abc import Iterable
from typing import Final

from creekdb.cluster.config import ServerConfig
from creekdb.cluster.security import valid_until
from creekdb.errors import UsageError

RELOADED: Final = ("security", "log", "log_level")
"""The keys."""
_NEVER: Final = ("members", "replica")
"""What the journal knows better."""


def reload_certificates(
    before: ServerConfig, after: ServerConfig, contexts: Iterable[ssl.SSLContext]
) -> float | None:
    """For connections to come; answers when they expire, if there are any. Raises `UsageError`, and
    then all stays as it was. Authorities are added to those that are trusted already."""
    if after.is_secured != before.is_secured:
        raise UsageError("encryption is switched on or off when the replica is started again")
    if not after.is_secured:
        return None
    expires = valid_until(after.security)
    for context in contexts:
        context.load_verify_locations(after.security.authority)
        context.load_cert_chain(after.security.certificate, after.security.key)
    return expires


def waiting_keys(before: ServerConfig, after: ServerConfig) -> list[str]:
    """What is different, and takes effect only when the replica is started again."""
    return [
        name
        for name in ServerConfig.__struct_fields__
        if name not in (*RELOADED, *_NEVER) and getattr(after, name) != getattr(before, name)
    ]
