"""Datagrams of the liveness probe that clients send to replicas."""

from typing import Final

PROBE_PREFIX: Final = b"creek?"
PROBE_RESPONSE_PREFIX: Final = b"creek!"
"""Prefix of a response. It differs from a probe's, so that two responders cannot loop."""
PROBE_BYTES: Final = 14
