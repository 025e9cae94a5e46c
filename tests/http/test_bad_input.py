"""Bad requests are rejected with a remedy and change nothing."""

import asyncio
from io import BytesIO
from pathlib import Path
from typing import Any

from creekdb.errors import DiskFull
from creekdb.http.requests import HttpLimits
from creekdb.wire.reject_reason import RejectReason
from tests.cluster.in_process_cluster import TIMEOUT_S
from tests.http.http_cluster import HttpCluster, http_cluster

MALFORMED = RejectReason.MALFORMED
BAD_ARGUMENTS = RejectReason.BAD_ARGUMENTS

JSON = {"Content-Type": "application/json"}
BAD_REQUESTS: list[tuple[str, str, dict[str, Any], int, str, str]] = [
    ("GET", "/nothing", {}, 404, RejectReason.UNKNOWN_PATH, "/openapi.json"),
    ("PUT", "/state", {}, 405, RejectReason.UNSUPPORTED_METHOD, "GET"),
    ("GET", "/operations/open", {}, 405, RejectReason.UNSUPPORTED_METHOD, "POST"),
    ("POST", "/operations/opne", {}, 404, RejectReason.UNKNOWN_OPERATION, "did you mean 'open'?"),
    ("POST", "/operations/creek.once", {}, 404, RejectReason.UNKNOWN_OPERATION, "expected one of"),
    (
        "POST",
        "/operations/open",
        {"json": {}},
        422,
        BAD_ARGUMENTS,
        "requires the argument 'name'",
    ),
    ("POST", "/operations/open", {"json": ["ann"]}, 422, BAD_ARGUMENTS, "an object"),
    (
        "POST",
        "/operations/open",
        {"json": {"nam": "a"}},
        422,
        BAD_ARGUMENTS,
        "no parameter 'nam'",
    ),
    ("POST", "/operations/open", {"json": {"name": 1}}, 422, BAD_ARGUMENTS, "a string"),
    (
        "POST",
        "/operations/open",
        {"json": {"name": "a", "amount": 2**63}},
        422,
        BAD_ARGUMENTS,
        "beyond 64 bits",
    ),
    (
        "POST",
        "/operations/open",
        {"data": b'{"name": "\\ud800"}', "headers": JSON},
        400,
        MALFORMED,
        "not valid JSON",
    ),
    (
        "POST",
        "/operations/open",
        {"data": b"{", "headers": JSON},
        400,
        MALFORMED,
        "not valid JSON",
    ),
    ("POST", "/operations/open", {"data": b"[" * 5000, "headers": JSON}, 400, MALFORMED, "JSON"),
    (
        "POST",
        "/operations/open",
        {"data": b"name=ann"},
        415,
        RejectReason.MEDIA_TYPE,
        "application/json",
    ),
    ("POST", "/operations/total?consistency=eventual", {}, 400, MALFORMED, "weak, strong"),
    ("POST", "/operations/total?consistancy=weak", {}, 400, MALFORMED, "'consistancy'"),
    ("POST", "/operations/total?wait=long", {}, 400, MALFORMED, "tentative, stable, final"),
    ("POST", "/operations/total?wait=final", {}, 422, BAD_ARGUMENTS, "use consistency=strong"),
    ("POST", "/operations/total?timeout=-1", {}, 400, MALFORMED, "seconds"),
    ("POST", "/operations/total?timeout=301", {}, 400, MALFORMED, "300"),
    ("POST", "/operations/total?after=7", {}, 400, MALFORMED, "0.17"),
    ("POST", "/operations/total?after=" + ",".join(["0.1"] * 65), {}, 400, MALFORMED, "64"),
    (
        "POST",
        "/operations/total",
        {"headers": {"Creek-Client": "me"}},
        400,
        MALFORMED,
        "Creek-Call",
    ),
    (
        "POST",
        "/operations/total",
        {"headers": {"Creek-Client": "a b", "Creek-Call": "1"}},
        400,
        MALFORMED,
        "Creek-Client",
    ),
    (
        "POST",
        "/operations/total",
        {"headers": [("Creek-Client", "a"), ("Creek-Client", "b"), ("Creek-Call", "1")]},
        400,
        MALFORMED,
        "'Creek-Client' is repeated",
    ),
    ("GET", "/calls/0.77", {}, 404, RejectReason.UNKNOWN_CALL, "'0.77'"),
    ("GET", "/calls/x/events", {}, 404, RejectReason.UNKNOWN_CALL, "'x'"),
    ("GET", "/state?limit=0", {}, 400, MALFORMED, "1 to 1000"),
    ("GET", "/state?limit=1&limit=2", {}, 400, MALFORMED, "repeated"),
    ("GET", "/state?at=-1", {}, 400, MALFORMED, "at is '-1'"),
    ("GET", "/state?prefix=[1.5]", {}, 400, MALFORMED, "prefix"),
    ("GET", "/state?prefix=[", {}, 400, MALFORMED, "not valid JSON"),
    ("GET", "/state?after=ann", {}, 400, MALFORMED, "after is not valid JSON"),
    ("GET", "/status?verbose=1", {}, 400, MALFORMED, "'verbose'"),
]


async def test_each_bad_request_is_rejected_and_changes_nothing(tmp_path: Path) -> None:
    async with http_cluster(tmp_path) as http:
        for method, path, options, status, problem, detail in BAD_REQUESTS:
            response = await http.request(method, path, **options)
            assert (response.status, response.problem) == (status, problem), (method, path)
            assert detail in response.body["detail"], (method, path)
            assert response.body["certainly_not_done"] is True
            assert response.body["status"] == status
        status = (await http.get("/status")).body
        assert status["executions"] == status["committed"] == status["tentative"] == 0
        assert status["refused"][BAD_ARGUMENTS] == 6
        assert status["refused"][MALFORMED] > 10


async def test_a_body_above_the_limit_is_rejected(tmp_path: Path) -> None:
    async with http_cluster(tmp_path) as http:
        body = BytesIO(b" " * (HttpLimits().body_bytes_max + 1))
        response = await http.post("/operations/open", data=body, headers=JSON)
        assert (response.status, response.problem) == (413, RejectReason.TOO_LARGE)
        assert str(HttpLimits().body_bytes_max) in response.body["detail"]


async def test_a_body_must_arrive_in_time(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, limits=HttpLimits(body_timeout_s=0.05)) as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.http_servers[0].port)
        request = (
            "POST /operations/total HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n{"
        )
        writer.write(request.encode())
        assert b" 408 " in await reader.readline()
        writer.close()


async def test_requests_from_other_origins_are_rejected(tmp_path: Path) -> None:
    async with http_cluster(tmp_path) as http:
        evil = {"Origin": "http://evil.example"}
        response = await http.post("/operations/open", {"name": "ann"}, headers=evil)
        assert (response.status, response.problem) == (403, RejectReason.FOREIGN_ORIGIN)
        rebound = {"Host": "evil.example", "Origin": "http://evil.example"}
        response = await http.post("/operations/open", {"name": "ann"}, headers=rebound)
        assert (response.status, response.problem) == (403, RejectReason.FOREIGN_ORIGIN)
        for headers in ({"Origin": "null"}, {"Origin": "http://["}, {"Host": "["}):
            response = await http.post("/operations/open", {"name": "ann"}, headers=headers)
            assert (response.status, response.problem) == (403, RejectReason.FOREIGN_ORIGIN)
        for host in ("localhost:7300", "[::1]"):
            assert (await http.get("/health", headers={"Host": host})).status == 200
        own = {"Origin": http.url("")}
        assert (await http.post("/operations/open", {"name": "a"}, headers=own)).status == 200


async def assert_rejected(http: HttpCluster, problem: str) -> None:
    response = await http.post("/operations/open", {"name": "ann"})
    assert (response.status, response.problem) == (503, problem)
    assert response.headers["Retry-After"] == "1"
    assert response.body["certainly_not_done"] is True


async def test_an_impaired_replica_responds_with_503(tmp_path: Path) -> None:
    async with http_cluster(tmp_path) as http:
        server = http.cluster.servers[0]
        assert (await http.get("/ready")).status == 200
        server.journal.fault = DiskFull("no space left")
        await assert_rejected(http, RejectReason.DISK)
        response = await http.get("/ready")
        assert (response.status, response.problem) == (503, RejectReason.NOT_READY)
        assert "no space left" in response.body["detail"]
        assert (await http.get("/health")).body == {"alive": True}
        server.admission.close("the replica is stopping")
        await assert_rejected(http, RejectReason.STOPPING)


async def test_a_replica_without_a_majority_is_not_ready_and_serves_weak_calls(
    tmp_path: Path,
) -> None:
    async with http_cluster(tmp_path, replicas=3) as http:
        async with asyncio.timeout(TIMEOUT_S):
            while (await http.get("/ready")).status != 200:
                await asyncio.sleep(0.02)
        await http.cluster.stop(1, 2)
        async with asyncio.timeout(TIMEOUT_S):
            while (response := await http.get("/ready")).body.get("reasons") != [
                "no leader is elected"
            ]:
                await asyncio.sleep(0.02)
        assert (response.status, response.problem) == (503, RejectReason.NOT_READY)
        assert (await http.get("/health")).status == 200
        assert (await http.post("/operations/open", {"name": "ann"})).status == 200


async def test_requests_and_event_streams_are_bounded(tmp_path: Path) -> None:
    limits = HttpLimits(requests_max=2, event_streams_max=1)
    async with http_cluster(tmp_path, replicas=2, limits=limits) as http:
        await http.post("/operations/open?consistency=strong", {"name": "ann"})
        await http.cluster.stop(1)
        deposit, path = {"name": "ann", "amount": 1}, "/operations/deposit?consistency=strong"
        call = (await http.post(f"{path}&timeout=0", deposit)).body["call"]
        api = http.http_servers[0].api
        async with asyncio.TaskGroup() as group:
            events = group.create_task(http.events("GET", f"/calls/{call}/events"))
            while api.open_event_streams < 1:
                await asyncio.sleep(0.01)
            response = await http.get(f"/calls/{call}/events")
            assert (response.status, response.problem) == (503, RejectReason.BUSY)
            waiting = group.create_task(http.post(path, deposit))
            while len(api.calls) < 3:
                await asyncio.sleep(0.01)
            await assert_rejected(http, RejectReason.BUSY)
            assert (await http.get("/health")).status == 200  # probes are never busy
            await http.cluster.start(1)
        assert waiting.result().body["value"] == 2
        assert events.result()[-1].name == "stable"


async def test_event_streams_end_when_the_server_stops(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, replicas=2) as http:
        await http.post("/operations/open?consistency=strong", {"name": "ann"})
        await http.cluster.stop(1)
        path = "/operations/deposit?consistency=strong&timeout=0"
        response = await http.post(path, {"name": "ann", "amount": 1})
        assert response.status == 202
        async with asyncio.TaskGroup() as group:
            location = response.headers["Location"] + "/events"
            events = group.create_task(http.events("GET", location))
            while http.http_servers[0].api.open_event_streams < 1:
                await asyncio.sleep(0.01)
            await http.http_servers[0].stop()
        assert events.result()[0].name == "issued"
        assert "stable" not in {each.name for each in events.result()}
