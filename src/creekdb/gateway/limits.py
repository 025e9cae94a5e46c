"""How much of everything there may be."""

from typing import NamedTuple

from creekdb.wire.messages import CLIENT_FRAME_MAX


class Limits(NamedTuple):
    body_bytes: int = CLIENT_FRAME_MAX
    body_s: float = 30.0
    """How long it may take to arrive."""
    connections: int = 2048
    requests: int = 1024
    """Under way at once, those that follow a call included."""
    followed: int = 256
    pages: int = 16
    """That are open at once."""
    timeout_s: float = 30.0
    """How long a call waits for its answer, if it does not say."""
    timeout_s_max: float = 300.0
    items: int = 100
    """Registers in one answer, if it is not said how many."""
    items_max: int = 1000
    state_bytes: int = 4 * 1024 * 1024
    """After so many, an answer with registers has an end."""
