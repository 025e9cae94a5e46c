"""Change feed over HTTP: server-sent events that a browser resumes."""

import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

from creekdb.http.requests import HttpLimits
from creekdb.server.changes.readers import ReaderLimits
from creekdb.server.runtime.server import ServerLimits
from tests.cluster.in_process_cluster import TIMEOUT_S
from tests.cluster.wire_client import open_connection
from tests.http.http_cluster import HttpCluster, http_cluster

KEPT: dict[str, Any] = {"keep_changes": "1h", "datatype": "kv"}


class ReceivedEvent(NamedTuple):
    name: str
    id: str | None
    data: Any


async def put(http: HttpCluster, *values: int, key: str = "a") -> None:
    for value in values:
        body = {"key": key, "value": value}
        response = await http.post("/operations/put?consistency=strong", json=body)
        assert response.status == 200


def parse(block: str) -> ReceivedEvent | None:
    fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
    if "data" not in fields:
        return None
    return ReceivedEvent(fields["event"], fields.get("id"), json.loads(fields["data"]))


async def receive(
    http: HttpCluster, path: str, count: int | None = None, **options: Any
) -> list[ReceivedEvent]:
    """Return the first events of a stream, or all of one that ends."""
    events: list[ReceivedEvent] = []
    async with asyncio.timeout(TIMEOUT_S), http.open("GET", path, **options) as response:
        assert response.status == 200, await response.text()
        assert response.headers["Content-Type"] == "text/event-stream"
        assert response.headers["Creek-Cluster"].startswith("creek:")
        pending = ""
        async for data in response.content.iter_any():
            *blocks, pending = (pending + data.decode()).split("\n\n")
            events += [event for event in map(parse, blocks) if event is not None]
            if count is not None and len(events) >= count:
                return events[:count]
    return events


async def test_changes_are_events_with_their_index_as_id(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, **KEPT) as http:
        await put(http, 1, 2)
        first, second = await receive(http, "/changes?follow=false")

        assert first.name == "change"
        assert first.id is not None
        cluster, _, index = first.id.rpartition(":")
        assert int(index) == first.data["index"]
        assert cluster.startswith("creek:")
        assert first.data["operation"] == "put"
        assert first.data["arguments"] == ["a", 1]
        assert first.data["writes"] == [{"key": "a", "value": 1}]
        assert (first.data["strong"], first.data["changed"]) == (True, False)
        assert second.data["writes"] == [{"key": "a", "value": 2}]


async def test_a_stream_follows_later_changes(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, **KEPT) as http:
        await put(http, 1)
        following = asyncio.ensure_future(receive(http, "/changes?start=1", 3))
        await asyncio.sleep(0.1)
        await put(http, 2, 3)

        assert [event.data["arguments"][1] for event in await following] == [1, 2, 3]


async def test_a_reconnected_browser_resumes_after_the_last_event(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, **KEPT) as http:
        await put(http, *range(6))
        seen = await receive(http, "/changes?start=earliest", 2)
        headers = {"Last-Event-ID": str(seen[-1].id)}
        rest = await receive(http, "/changes?start=earliest&follow=false", headers=headers)

        assert [event.data["arguments"][1] for event in seen + rest] == list(range(6))


async def test_a_browser_does_not_resume_in_another_cluster(tmp_path: Path) -> None:
    """A cluster that was restored or created again may have the same indices."""
    async with http_cluster(tmp_path, **KEPT) as http:
        await put(http, *range(6))
        _, last = await receive(http, "/changes?start=earliest", 2)
        assert last.id is not None
        index = last.id.rpartition(":")[2]
        path = "/changes?start=earliest&follow=false"
        foreign = await http.get(path, headers={"Last-Event-ID": f"creek:other:{index}"})
        plain = await receive(http, path, headers={"Last-Event-ID": index})

        assert (foreign.status, foreign.problem) == (409, "foreign_position")
        assert [event.data["arguments"][1] for event in plain] == list(range(2, 6))


async def test_a_browser_reconnects_after_a_problem_that_may_pass(tmp_path: Path) -> None:
    """An EventSource gives up after any status but 200, and reconnects after a stream that ends."""
    limits = ServerLimits(changes=ReaderLimits(future_wait_s=0.01, readers_max=1))
    browser = {"Accept": "text/event-stream"}
    async with http_cluster(tmp_path, server_limits=limits, **KEPT) as http:
        await put(http, 1)
        future = await http.get("/changes?start=1000", headers=browser)
        foreign = await http.get("/changes?start=1&cluster=creek:other", headers=browser)
        async with http.open("GET", "/changes") as response:
            assert response.status == 200
            busy = await http.get("/changes", headers=browser)

        for response, name in ((future, "position_in_future"), (busy, "busy")):
            assert response.status == 200
            assert response.headers["Content-Type"] == "text/event-stream"
            assert response.body.startswith("retry: 1000\n")
            event = parse(response.body.strip())
            assert event is not None
            assert (event.name, event.id) == (name, None)
            assert event.data["type"] == f"urn:creek:problem:{name}"
        assert (foreign.status, foreign.problem) == (409, "foreign_position")


async def test_a_change_of_any_size_is_one_event(tmp_path: Path) -> None:
    limits = ServerLimits(changes=ReaderLimits(part_bytes=300, part_bytes_max=2_000))
    async with http_cluster(tmp_path, server_limits=limits, **KEPT) as http:
        value = "x" * 100_000
        response = await http.post(
            "/operations/put?consistency=strong", json={"key": "a", "value": value}
        )
        assert response.status == 200
        (event,) = await receive(http, "/changes?follow=false")
        assert event.data["writes"] == [{"key": "a", "value": value}]


async def test_a_prefix_selects_changes(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, **KEPT) as http:
        await put(http, 1, key="lamp")
        await put(http, 2, key="chair")
        events = await receive(http, "/changes?follow=false&prefix=la")

        assert [event.data["arguments"] for event in events] == [["lamp", 1]]


async def test_a_table_selects_changes_with_columns(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, keep_changes="1h", datatype="sql") as http:
        for text in ("CREATE TABLE item(name TEXT PRIMARY KEY)", "INSERT INTO item VALUES ('a')"):
            response = await http.post("/operations/sql?consistency=strong", json={"text": text})
            assert response.status == 200
        (event,) = await receive(http, "/changes?follow=false&table=item")
        unknown = await http.get("/changes?table=items")
        both = await http.get("/changes?table=item&prefix=a")

        assert event.data["rows"] == [
            {"kind": "write", "key": {"name": "a"}, "values": {"name": "a"}, "before": None}
        ]
        assert (unknown.status, unknown.problem) == (404, "unknown_table")
        assert (both.status, both.problem) == (400, "malformed")


async def test_an_idle_stream_sends_comments_with_its_position(tmp_path: Path) -> None:
    limits = HttpLimits(heartbeat_s=0.05)
    async with http_cluster(tmp_path, limits=limits, **KEPT) as http:
        await put(http, 1)
        (event,) = await receive(http, "/changes?follow=false")
        received = b""
        async with asyncio.timeout(TIMEOUT_S), http.open("GET", "/changes") as response:
            async for data in response.content.iter_any():
                received += data
                if received.count(b": complete up to") >= 3:
                    break

        last = received.decode().rstrip().splitlines()[-1]
        assert last.startswith("id: creek:")
        assert int(last.rpartition(":")[2]) >= event.data["index"]
        assert b"data:" not in received


async def test_positions_that_cannot_be_read_are_problems(tmp_path: Path) -> None:
    server_limits = ServerLimits(changes=ReaderLimits(future_wait_s=0.01))
    async with http_cluster(tmp_path, server_limits=server_limits, **KEPT) as http:
        await put(http, 1)
        future = await http.get("/changes?start=1000")
        foreign = await http.get("/changes?start=1&cluster=creek:other")
        feed = http.cluster.servers[0].changes
        assert feed is not None
        feed.log.skip_to(feed.log.next_index + 5)
        gone = await http.get(f"/changes?start={feed.log.next_index - 3}")

        assert (future.status, future.problem) == (404, "position_in_future")
        assert (foreign.status, foreign.problem) == (409, "foreign_position")
        assert (gone.status, gone.problem) == (410, "changes_expired")
        assert gone.body["first"] == feed.log.next_index


async def test_a_replica_without_a_feed_reports_it(tmp_path: Path) -> None:
    async with http_cluster(tmp_path) as http:
        response = await http.get("/changes")

        assert (response.status, response.problem) == (404, "changes_off")


async def test_invalid_parameters_are_rejected(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, **KEPT) as http:
        for query in ("start=0", "start=now", "follow=maybe", "prefix=[", "view=x"):
            response = await http.get(f"/changes?{query}")
            assert (response.status, response.problem) == (400, "malformed"), query


async def test_the_number_of_streams_is_bounded(tmp_path: Path) -> None:
    server_limits = ServerLimits(changes=ReaderLimits(readers_max=1))
    async with http_cluster(tmp_path, server_limits=server_limits, **KEPT) as http:
        await put(http, 1)
        async with http.open("GET", "/changes") as response:
            assert response.status == 200
            rejected = await http.get("/changes")
            assert (rejected.status, rejected.problem) == (503, "busy")


async def test_a_gap_ends_a_stream_with_a_problem(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, **KEPT) as http:
        await put(http, 1)
        following = asyncio.ensure_future(receive(http, "/changes?start=1"))
        await asyncio.sleep(0.2)
        feed = http.cluster.servers[0].changes
        assert feed is not None
        feed.log.skip_to(feed.log.next_index + 5)
        feed._notify()
        events = await following

        assert [event.name for event in events] == ["change", "changes_expired"]


async def test_a_tentative_view_sends_stages_as_events(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, 3, **KEPT) as http:
        await put(http, 1, key="lamp")
        async with http.cluster.client(0) as db, db.changes(1) as stream:
            await anext(stream)  # the cluster has an identity
        await http.cluster.until_quiescent()
        await http.cluster.stop(1, 2)
        body = {"key": "lamp", "value": 2}
        assert (await http.post("/operations/put?consistency=weak", json=body)).status == 200
        (event,) = await receive(http, "/changes?view=tentative&prefix=lamp", 1)
        endless = await http.get("/changes?view=tentative&follow=false")

        assert (event.name, event.id, event.data["stage"]) == ("tentative", None, "tentative")
        assert event.data["writes"] == [{"key": "lamp", "value": 2}]
        assert (endless.status, endless.problem) == (400, "malformed")


async def test_a_browser_that_reads_nothing_gets_a_bounded_number_of_parts(tmp_path: Path) -> None:
    count = 40
    async with http_cluster(tmp_path, **KEPT) as http:
        readers = http.cluster.servers[0].clients.changes
        async with http.cluster.client() as db:
            for number in range(count):
                await db.strong.put("a", f"{number:01000000}")
            _, writer = await open_connection(http.url("").removeprefix("http://"))
            writer.write(b"GET /changes?start=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            sent = -1
            async with asyncio.timeout(TIMEOUT_S):
                while sent != readers.parts_sent:  # the stream waits for its reader
                    sent = readers.parts_sent
                    await asyncio.sleep(0.3)
            assert 0 < sent <= count // 2
            await db.strong.put("a", 1)  # others are not affected
            writer.transport.abort()
        rest = await receive(http, f"/changes?start={count}&follow=false")
        assert rest[-1].data["arguments"] == ["a", 1]
