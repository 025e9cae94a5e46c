"""Datagrams of the liveness probe that clients send to replicas."""

from typing import Final

QUESTION: Final = b"creek?"
ANSWER: Final = b"creek!"
"""Which is no question: two who answer do not talk to each other for ever."""
LENGTH: Final = 14
