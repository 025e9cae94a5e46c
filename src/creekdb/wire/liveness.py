"""Datagrams of the liveness probe that clients send to replicas."""

from typing import Final

PROBE_PREFIX: Final = b"creek?"
PROBE_RESPONSE_PREFIX: Final = b"creek!"
"""Which is no question: two who answer do not talk to each other for ever."""
PROBE_BYTES: Final = 14
