"""Images of the requests that are not final at a replica, for readers of the tentative view.

An image is computed when a reader requests it, and kept nowhere. Readers that wait poll. Their
interval grows with the cost of an image, so that images take a bounded share of the processor.
"""

from collections.abc import Callable
from typing import Any, Final
from zlib import crc32

import msgspec

from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key
from creekdb.server.changes.encoding import client_call, is_reserved
from creekdb.server.changes.feed import ChangeFeed
from creekdb.server.runtime.driver import Driver
from creekdb.wire.changes import Change, KeyFilter, encode_changes
from creekdb.wire.tentative import TentativeImage

IMAGE_REQUESTS_MAX: Final = 1000
"""Upper bound for the requests of an image. The oldest ones are sent."""
IMAGE_BYTES_MAX: Final = 1024 * 1024
"""Size of an image after which no request is added, in bytes. A request whose current result is
larger is not shown before it is final."""
_encode: Final = msgspec.msgpack.Encoder().encode


class TentativeView:
    """Source of images."""

    def __init__(
        self,
        driver: Driver,
        feed: ChangeFeed,
        requests_max: int = IMAGE_REQUESTS_MAX,
        bytes_max: int = IMAGE_BYTES_MAX,
    ) -> None:
        self._driver = driver
        self._feed = feed
        self._requests_max = requests_max
        self._bytes_max = bytes_max

    def image(self, key_filter: KeyFilter | None) -> TentativeImage:
        """Return the requests that write selected registers and are not in the feed yet."""
        driver, has_key = self._driver, _key_predicate(key_filter)
        driver.apply_effects()  # the feed must have all requests that are stable
        pending = list(self._feed.unwritten_ids())
        changes: list[Change] = []
        size = 0
        with driver.executor.lock:
            for request, outcome, written in driver.replica.view.unstable_writes(has_key):
                if len(changes) + len(pending) >= self._requests_max or size >= self._bytes_max:
                    break
                if outcome is None:
                    pending.append(request.id)
                    continue
                call = client_call(request.operation)
                if call is None or not (written or key_filter is None):
                    continue
                client, number, name, arguments = call
                writes, deleted = _split(written)
                change = Change(
                    0,
                    request.id,
                    request.timestamp,
                    name,
                    arguments,
                    request.strong,
                    None,
                    outcome.value,
                    outcome.error,
                    writes,
                    deleted,
                    None,
                    client,
                    number,
                )
                change_bytes = len(_encode(change))
                if change_bytes > self._bytes_max:
                    pending.append(request.id)
                    continue
                changes.append(change)
                size += change_bytes
        body = encode_changes(changes)
        return TentativeImage(crc32(_encode(pending), crc32(body)), body, tuple(pending))


def _key_predicate(key_filter: KeyFilter | None) -> Callable[[Key], bool]:
    if key_filter is None:
        return lambda key: not is_reserved(key)
    return key_filter.matches


def _split(written: dict[Key, Any]) -> tuple[tuple[tuple[Key, Any], ...], tuple[Key, ...]]:
    writes = tuple([item for item in written.items() if item[1] is not ABSENT])
    return writes, tuple([key for key, value in written.items() if value is ABSENT])
