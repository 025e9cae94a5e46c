"""Server-sent events, as bytes."""

from typing import Any, Final

import msgspec

EVENTS: Final = "text/event-stream"


def event(name: str, data: Any) -> bytes:
    return f"event: {name}\ndata: {msgspec.json.encode(data).decode()}\n\n".encode()
