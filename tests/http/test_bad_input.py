"""Requests that make no sense get an answer that says what to do, and change nothing."""

import asyncio
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

from creekdb.http.requests import HttpLimits
from tests.cluster.house import PATIENCE_S
from tests.http.served import Served, run, served

JSON = {"Content-Type": "application/json"}
BAD: list[tuple[str, str, dict[str, Any], int, str, str]] = [
    ("GET", "/nothing", {}, 404, "not_found", "/openapi.json"),
    ("PUT", "/state", {}, 405, "method", "GET"),
    ("GET", "/operations/open", {}, 405, "method", "POST"),
    ("POST", "/operations/opne", {}, 404, "unknown_operation", "did you mean 'open'?"),
    ("POST", "/operations/creek.once", {}, 404, "unknown_operation", "known are"),
    ("POST", "/operations/open", {"json": {}}, 422, "bad_arguments", "needs the argument 'name'"),
    ("POST", "/operations/open", {"json": ["ann"]}, 422, "bad_arguments", "an object"),
    ("POST", "/operations/open", {"json": {"nam": "a"}}, 422, "bad_arguments", "no argument 'nam'"),
    ("POST", "/operations/open", {"json": {"name": 1}}, 422, "bad_arguments", "a string"),
    (
        "POST",
        "/operations/open",
        {"json": {"name": "a", "amount": 2**63}},
        422,
        "bad_arguments",
        "64 bits",
    ),
    (
        "POST",
        "/operations/open",
        {"data": b'{"name": "\\ud800"}', "headers": JSON},
        400,
        "malformed",
        "no JSON",
    ),
    ("POST", "/operations/open", {"data": b"{", "headers": JSON}, 400, "malformed", "no JSON"),
    ("POST", "/operations/open", {"data": b"[" * 5000, "headers": JSON}, 400, "malformed", "JSON"),
    ("POST", "/operations/open", {"data": b"name=ann"}, 415, "media_type", "application/json"),
    ("POST", "/operations/total?consistency=eventual", {}, 400, "malformed", "weak, strong"),
    ("POST", "/operations/total?consistancy=weak", {}, 400, "malformed", "'consistancy'"),
    ("POST", "/operations/total?wait=long", {}, 400, "malformed", "tentative, stable, final"),
    ("POST", "/operations/total?wait=final", {}, 422, "bad_arguments", "call it strongly"),
    ("POST", "/operations/total?timeout=-1", {}, 400, "malformed", "seconds"),
    ("POST", "/operations/total?timeout=301", {}, 400, "malformed", "300"),
    ("POST", "/operations/total?after=7", {}, 400, "malformed", "0.17"),
    ("POST", "/operations/total?after=" + ",".join(["0.1"] * 65), {}, 400, "malformed", "64"),
    (
        "POST",
        "/operations/total",
        {"headers": {"Creek-Client": "me"}},
        400,
        "malformed",
        "Creek-Call",
    ),
    (
        "POST",
        "/operations/total",
        {"headers": {"Creek-Client": "a b", "Creek-Call": "1"}},
        400,
        "malformed",
        "Creek-Client",
    ),
    ("GET", "/calls/0.77", {}, 404, "unknown_call", "'0.77'"),
    ("GET", "/calls/x/events", {}, 404, "unknown_call", "'x'"),
    ("GET", "/state?limit=0", {}, 400, "malformed", "1 to 1000"),
    ("GET", "/state?limit=1&limit=2", {}, 400, "malformed", "twice"),
    ("GET", "/state?at=-1", {}, 400, "malformed", "at is '-1'"),
    ("GET", "/state?prefix=[1.5]", {}, 400, "malformed", "prefix"),
    ("GET", "/state?prefix=[", {}, 400, "malformed", "no JSON"),
    ("GET", "/state?after=ann", {}, 400, "malformed", "after is no JSON"),
    ("GET", "/status?verbose=1", {}, 400, "malformed", "'verbose'"),
]


def test_each_mistake_is_told_and_changes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as http:
            for method, path, more, status, problem, detail in BAD:
                told = await http.ask(method, path, **more)
                assert (told.status, told.problem) == (status, problem), (method, path)
                assert detail in told.body["detail"], (method, path)
                assert told.body["certainly_not_done"] is True
                assert told.body["status"] == status
            status = (await http.get("/status")).body
            assert status["executions"] == status["committed"] == status["tentative"] == 0
            assert status["refused"]["bad_arguments"] == 6
            assert status["refused"]["malformed"] > 10

    run(story())


def test_a_body_may_be_only_so_long(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as http:
            long = BytesIO(b" " * (HttpLimits().body_bytes_max + 1))
            told = await http.post("/operations/open", data=long, headers=JSON)
            assert (told.status, told.problem) == (413, "too_large")
            assert str(HttpLimits().body_bytes_max) in told.body["detail"]

    run(story())


def test_a_body_must_arrive_in_time(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, limits=HttpLimits(body_timeout_s=0.05)) as http:
            reader, writer = await asyncio.open_connection("127.0.0.1", http.gateways[0].port)
            begun = (
                "POST /operations/total HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n{"
            )
            writer.write(begun.encode())
            assert b" 408 " in await reader.readline()
            writer.close()

    run(story())


def test_only_so_many_connections_are_taken(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, limits=HttpLimits(connections_max=1)) as http:
            port = http.gateways[0].port
            first, writer = await asyncio.open_connection("127.0.0.1", port)
            while not http.gateways[0].connections:
                await asyncio.sleep(0.01)
            second, other = await asyncio.open_connection("127.0.0.1", port)
            with suppress(ConnectionResetError):
                assert await second.read() == b""
            other.close()
            writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert b" 200 " in await first.readline()
            writer.close()
            async with asyncio.timeout(PATIENCE_S):
                while http.gateways[0].connections:
                    await asyncio.sleep(0.01)
            assert (await http.get("/health")).status == 200

    run(story())


def test_a_page_of_another_site_cannot_ask(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as http:
            evil = {"Origin": "http://evil.example"}
            told = await http.post("/operations/open", {"name": "ann"}, headers=evil)
            assert (told.status, told.problem) == (403, "origin")
            led_here = {"Host": "evil.example", "Origin": "http://evil.example"}
            told = await http.post("/operations/open", {"name": "ann"}, headers=led_here)
            assert (told.status, told.problem) == (403, "origin")
            for odd in ({"Origin": "null"}, {"Origin": "http://["}, {"Host": "["}):
                told = await http.post("/operations/open", {"name": "ann"}, headers=odd)
                assert (told.status, told.problem) == (403, "origin")
            for host in ("localhost:7300", "[::1]"):
                assert (await http.get("/health", headers={"Host": host})).status == 200
            own = {"Origin": http.url("")}
            assert (await http.post("/operations/open", {"name": "a"}, headers=own)).status == 200

    run(story())


async def refused(http: Served, problem: str) -> None:
    told = await http.post("/operations/open", {"name": "ann"})
    assert (told.status, told.problem) == (503, problem)
    assert told.headers["Retry-After"] == "1"
    assert told.body["certainly_not_done"] is True


def test_a_replica_that_cannot_is_told_apart_from_a_wrong_request(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as http:
            server = http.cluster.servers[0]
            assert (await http.get("/ready")).status == 200
            server.dispatcher.rejection = lambda strong, alone: ("disk", "no space left")
            await refused(http, "disk")
            told = await http.get("/ready")
            assert (told.status, told.problem) == (503, "not_ready")
            assert "no space left" in told.body["detail"]
            assert (await http.get("/health")).body == {"alive": True}
            server.dispatcher.rejection = lambda strong, alone: ("stopping", "it is being stopped")
            await refused(http, "stopping")

    run(story())


def test_a_replica_that_is_alone_is_not_ready_and_goes_on_all_the_same(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, replicas=3) as http:
            async with asyncio.timeout(PATIENCE_S):
                while (await http.get("/ready")).status != 200:
                    await asyncio.sleep(0.02)
            await http.cluster.stop(1, 2)
            async with asyncio.timeout(PATIENCE_S):
                while (told := await http.get("/ready")).body.get("reasons") != ["nobody leads"]:
                    await asyncio.sleep(0.02)
            assert (told.status, told.problem) == (503, "not_ready")
            assert (await http.get("/health")).status == 200
            assert (await http.post("/operations/open", {"name": "ann"})).status == 200

    run(story())


def test_what_is_under_way_is_bounded(tmp_path: Path) -> None:
    async def story() -> None:
        limits = HttpLimits(requests_max=2, event_streams_max=1)
        async with served(tmp_path, replicas=2, limits=limits) as http:
            await http.post("/operations/open?consistency=strong", {"name": "ann"})
            await http.cluster.stop(1)
            gift, path = {"name": "ann", "amount": 1}, "/operations/deposit?consistency=strong"
            call = (await http.post(f"{path}&timeout=0", gift)).body["call"]
            paths = http.gateways[0].api
            async with asyncio.TaskGroup() as group:
                events = group.create_task(http.events("GET", f"/calls/{call}/events"))
                while paths.open_event_streams < 1:
                    await asyncio.sleep(0.01)
                told = await http.get(f"/calls/{call}/events")
                assert (told.status, told.problem) == (503, "busy")
                waiting = group.create_task(http.post(path, gift))
                while len(paths.calls) < 3:
                    await asyncio.sleep(0.01)
                await refused(http, "busy")
                await http.cluster.start(1)
            assert waiting.result().body["value"] == 2
            assert events.result()[-1].name == "stable"

    run(story())


def test_who_follows_a_call_is_told_when_the_replica_stops(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, replicas=2) as http:
            await http.post("/operations/open?consistency=strong", {"name": "ann"})
            await http.cluster.stop(1)
            path = "/operations/deposit?consistency=strong&timeout=0"
            told = await http.post(path, {"name": "ann", "amount": 1})
            assert told.status == 202
            async with asyncio.TaskGroup() as group:
                where = told.headers["Location"] + "/events"
                events = group.create_task(http.events("GET", where))
                while http.gateways[0].api.open_event_streams < 1:
                    await asyncio.sleep(0.01)
                await http.gateways[0].stop()
            assert events.result()[0].name == "issued"
            assert "stable" not in {each.name for each in events.result()}

    run(story())
