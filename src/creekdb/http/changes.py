"""Change feed as server-sent events.

The `id` of an event is the identity of the cluster and the commit index. A browser that reconnects
sends it as `Last-Event-ID`, and resumes where it was, but not in another cluster. A comment is sent
while there are no changes, with the index up to which the reader has everything. The next part is
read only when the last one was sent, so a slow reader costs no memory.

An `EventSource` reconnects after a response that ends, and gives up for good after any status but
200 (HTML Standard, 9.2.2). So a problem that may pass is an event of a response that ends.
"""

from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec
from aiohttp import web

from creekdb.http.requests import ChangesStart, HttpLimits, parse_changes_request
from creekdb.http.responses import EVENT_STREAM, HttpProblem
from creekdb.server.changes.readers import ChangeReaders, ChangesQuery, FeedPart, ReadRejected
from creekdb.wire.changes import KeyFilter, change_to_json, decode_changes
from creekdb.wire.reject_reason import RejectReason
from creekdb.wire.table_changes import make_table_change, table_change_to_json
from creekdb.wire.tentative import StageTracker, staged_change_to_json

CLUSTER_HEADER: Final = "Creek-Cluster"
"""Header of a response with the identity of the cluster."""
CHANGES_PATH: Final = "/changes"
RETRY_MS: Final = 1000
"""Pause before a browser reconnects, in milliseconds."""


class _Position(NamedTuple):
    start: int
    cluster: str


class ChangeEvents:
    """Path `CHANGES_PATH`."""

    def __init__(self, readers: ChangeReaders, limits: HttpLimits) -> None:
        self._readers = readers
        self._limits = limits

    async def stream(self, request: web.Request) -> web.StreamResponse:
        wanted = parse_changes_request(request)
        readers = self._readers
        try:
            readers.enter()
        except ReadRejected as error:
            raise _problem(error) from error
        try:
            part = await self._read(_Position(wanted.start, wanted.cluster), wanted, 0.0)
            response = web.StreamResponse(
                headers={"Content-Type": EVENT_STREAM, CLUSTER_HEADER: part.cluster}
            )
            await response.prepare(request)
            await self._send_all(response, part, wanted)
        finally:
            readers.leave()
        return response

    async def _send_all(
        self, response: web.StreamResponse, part: FeedPart, wanted: ChangesStart
    ) -> None:
        stop = None if wanted.follow else part.newest
        tracker, stamp = StageTracker() if wanted.view else None, -1
        await response.write(_retry() + _heartbeat(part.cluster, part.first - 1))
        while True:
            sent = await _send_part(response, part, tracker)
            stamp = stamp if part.image is None else part.image.stamp
            if stop is not None and part.end > stop:
                await response.write_eof()
                return
            if not sent:
                await response.write(_heartbeat(part.cluster, part.end - 1))
            position = _Position(part.end, part.cluster)
            try:
                part = await self._read(position, wanted, self._limits.heartbeat_s, stamp)
            except HttpProblem as problem:
                await response.write(_event(problem.reason, problem.body()))
                await response.write_eof()
                return

    async def _read(
        self, position: _Position, wanted: ChangesStart, wait_s: float, stamp: int = -1
    ) -> FeedPart:
        key_filter = None if wanted.prefix is None else KeyFilter(wanted.prefix)
        is_tentative = bool(wanted.view)
        query = ChangesQuery(*position, key_filter, wait_s, wanted.table, is_tentative, stamp)
        try:
            return await self._readers.read(query)
        except ReadRejected as error:
            raise _problem(error) from error


async def _send_part(
    response: web.StreamResponse, part: FeedPart, tracker: StageTracker | None
) -> bool:
    """Send the changes of a part. Return False if there were none."""
    changes = [
        change
        for body in part.bodies
        for change in decode_changes(body)
        if change.index >= part.first
    ]
    table, cluster = part.table, part.cluster
    if tracker is not None:
        staged = tracker.add_final(changes, table)
        if part.image is not None:
            shown = decode_changes(part.image.body)
            staged += tracker.add_image(shown, part.image.pending, table)
        events = [
            _event(
                each.stage,
                staged_change_to_json(each),
                _event_id(cluster, each.index) if each.index else None,
            )
            for each in staged
        ]
    elif table is not None:
        tabular = [make_table_change(change, table) for change in changes]
        events = [
            _event("change", table_change_to_json(each), _event_id(cluster, each.index))
            for each in tabular
        ]
    else:
        events = [
            _event("change", change_to_json(each), _event_id(cluster, each.index))
            for each in changes
        ]
    if events:
        await response.write(b"".join(events))
    return bool(events)


def retry_response(request: web.Request, problem: HttpProblem) -> web.Response | None:
    """Return a response after which an `EventSource` reconnects, or None for a lasting problem.

    None also for other clients, which receive the status.
    """
    may_pass = problem.reason.rule.is_temporary or problem.reason is RejectReason.POSITION_IN_FUTURE
    is_event_source = EVENT_STREAM in request.headers.get("Accept", "")
    if request.path != CHANGES_PATH or not is_event_source or not may_pass:
        return None
    body = _retry() + _event(problem.reason, problem.body())
    return web.Response(body=body, headers={"Content-Type": EVENT_STREAM})


def _event_id(cluster: str, index: int) -> str:
    """Return the id of the event after which the reader has everything up to an index."""
    return f"{quote(cluster, safe=':')}:{index}"


def _event(name: str, data: Any, id: str | None = None) -> bytes:
    id_line = "" if id is None else f"id: {id}\n"
    return f"event: {name}\n{id_line}data: {msgspec.json.encode(data).decode()}\n\n".encode()


def _heartbeat(cluster: str, index: int) -> bytes:
    """Return a comment, and the id for `Last-Event-ID`. A block without data is no event."""
    return f": complete up to {index}\nid: {_event_id(cluster, index)}\n\n".encode()


def _retry() -> bytes:
    return f"retry: {RETRY_MS}\n".encode()


def _problem(error: ReadRejected) -> HttpProblem:
    return HttpProblem(
        error.reason, str(error), extra={"first": error.first, "newest": error.newest}
    )
