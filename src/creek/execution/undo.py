"""Placeholder, being written."""

from typing import Any

import msgspec

from creek.protocol.request import Outcome
from creek.protocol.values import Key


class Execution(msgspec.Struct, frozen=True):
    outcome: Outcome
    writes: dict[Key, Any]
    reads: int
