"""Calls of operations over HTTP."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from creekdb.http import calls
from creekdb.http.requests import HttpLimits
from creekdb.protocol.effects import Response, ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Outcome
from creekdb.server.backup.sessions import BackupLimits
from creekdb.server.runtime.server import ServerLimits
from creekdb.wire.messages import CallRequest
from creekdb.wire.reject_reason import RejectReason
from tests.cluster.in_process_cluster import TIMEOUT_S
from tests.cluster.test_rolling_upgrade import V1, V2
from tests.http.http_cluster import Event, HttpCluster, http_cluster
from tests.unit.server.storage.faulty_file_ops import SlowFileOps

RESULT = {"error": None, "changed": False}


async def test_weak_and_strong_calls_receive_responses(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, replicas=3) as http:
        response = await http.post("/operations/open", {"name": "ann", "amount": 100})
        call = {"call": "0.1", "operation": "open"}
        assert (response.status, response.body) == (
            200,
            {**call, "kind": "tentative", "value": 100, **RESULT},
        )
        assert response.headers["Location"] == "/calls/0.1"
        response = await http.post(
            "/operations/transfer?consistency=strong",
            {"giver": "ann", "taker": "ann", "amount": 30},
        )
        assert (response.body["kind"], response.body["value"]) == ("stable", [100, 100])
        response = await http.post("/operations/deposit?wait=final", {"name": "ann", "amount": 1})
        assert (response.body["kind"], response.body["value"]) == ("final", 101)
        for replica in range(3):
            response = await http.post("/operations/total?consistency=strong", replica=replica)
            assert (response.body["kind"], response.body["value"]) == ("stable", 101)


async def test_missing_arguments_take_their_defaults(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, datatype="kv") as http:
        for key in ("a", "b", "c"):
            await http.post("/operations/put", {"key": key, "value": {"$bytes": "AAE="}})
        response = await http.post("/operations/scan", {"limit": 2})
        assert response.body["value"] == [["a", {"$bytes": "AAE="}], ["b", {"$bytes": "AAE="}]]
        response = await http.post("/operations/increment", {"key": "n", "amount": 2.0})
        assert response.body["value"] == 2


async def test_an_operation_that_raises_is_reported_with_its_kind(tmp_path: Path) -> None:
    async with http_cluster(tmp_path) as http:
        for query, certain in (("", False), ("?consistency=strong", True)):
            response = await http.post(f"/operations/close{query}", {"name": "bob"})
            assert (response.status, response.problem) == (409, RejectReason.OPERATION_RAISED)
            assert response.body["detail"] == "LookupError: bob has no account"
            assert response.body["error"] == "LookupError"
            assert response.body["message"] == "bob has no account"
            assert response.body["changed"] is False
            assert response.body["certainly_not_done"] is certain
            assert response.body["kind"] == ("stable" if certain else "tentative")


async def test_a_call_retried_at_any_replica_is_executed_once(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, replicas=2) as http:
        await http.post("/operations/open?consistency=strong", {"name": "ann"})
        headers = {"Creek-Client": "till-7", "Creek-Call": "1"}
        deposit = {"name": "ann", "amount": 5}
        path = "/operations/deposit?consistency=strong"
        for replica in (0, 0, 1):
            response = await http.post(path, deposit, replica, headers=headers)
            assert response.body["value"] == 5
        next_headers = {**headers, "Creek-Call": "2"}
        assert (await http.post(path, deposit, 1, headers=next_headers)).body["value"] == 10
        assert (await http.post(path, deposit)).body["value"] == 15
        response = await http.post(path, {"name": "ann", "amount": 6}, headers=headers)
        assert (response.status, response.problem) == (409, RejectReason.OPERATION_RAISED)
        detail = "NumberUsed: call 1 of till-7 was another operation"
        assert response.body["detail"] == detail
        assert (await http.post("/operations/total")).body["value"] == 15


async def test_a_call_can_follow_a_call_at_another_replica(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, replicas=2) as http:
        call = (await http.post("/operations/open", {"name": "ann", "amount": 3})).body["call"]
        response = await http.post(f"/operations/balance?after={call}", {"name": "ann"}, 1)
        assert response.body["value"] == 3
        response = await http.post("/operations/total?after=0.999&timeout=0.05", replica=1)
        assert (response.status, response.problem) == (424, RejectReason.DEADLINE)
        assert response.body["certainly_not_done"] is True
        assert "0.999" in response.body["detail"]


async def test_a_response_after_the_timeout_can_be_streamed(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, replicas=2) as http:
        await http.post("/operations/open?consistency=strong", {"name": "ann"})
        await http.cluster.stop(1)
        path = "/operations/deposit?consistency=strong&timeout=0.2"
        response = await http.post(path, {"name": "ann", "amount": 1})
        assert response.status == 202
        assert response.body["over"] is False
        assert {each["kind"] for each in response.body["responses"]} <= {"tentative"}
        await http.cluster.start(1)
        async with asyncio.timeout(TIMEOUT_S):
            events = await http.events("GET", response.headers["Location"] + "/events")
        assert events[0] == Event("issued", {"call": response.body["call"], "operation": "deposit"})
        assert events[-1] == Event("stable", {"kind": "stable", "value": 1, **RESULT})
        response = await http.get(response.headers["Location"])
        assert response.body["over"] is True
        assert response.body["responses"][-1]["value"] == 1


async def test_an_abandoned_call_is_reported_as_untold(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, replicas=2) as http:
        await http.post("/operations/open?consistency=strong", {"name": "ann"})
        await http.cluster.stop(1)
        dispatcher = http.cluster.servers[0].dispatcher
        path = "/operations/deposit?consistency=strong"
        accepted = await http.post(f"{path}&timeout=0.2", {"name": "ann", "amount": 1})
        assert accepted.status == 202
        events = asyncio.create_task(http.events("GET", accepted.headers["Location"] + "/events"))
        waiting = asyncio.create_task(http.post(path, {"name": "ann", "amount": 1}))
        while len(dispatcher.open_calls()) < 2:
            await asyncio.sleep(0.01)
        dispatcher.abandon(dispatcher.open_calls())
        response = await waiting
        assert (response.status, response.problem) == (410, RejectReason.UNKNOWN_OUTCOME)
        assert response.body["certainly_not_done"] is False
        assert {each["kind"] for each in response.body["responses"]} <= {"tentative"}
        *_, last = await events
        assert (last.name, last.data["status"]) == (RejectReason.UNKNOWN_OUTCOME, 410)
        later = await http.get(accepted.headers["Location"])
        assert (later.status, later.body["over"]) == (200, True)


async def test_an_operation_that_a_peer_does_not_support_is_rejected(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, replicas=2, datatype=V2) as http:
        await http.cluster.stop(1)
        await http.cluster.start(1, datatype=V1)
        await http.cluster.until_connected()
        response = await http.post("/operations/release", {"slot": "blue"})
        assert (response.status, response.problem) == (404, RejectReason.UNKNOWN_OPERATION)
        assert response.body["certainly_not_done"] is True
        assert response.body["detail"].startswith("replica 1 does not support 'release'")
        assert (await http.post("/operations/book", {"slot": "blue"})).status == 200


async def first_line(http: HttpCluster, put: dict[str, Any]) -> str:
    headers = {"Accept": "text/event-stream"}
    async with http.open("POST", "/operations/put", json=put, headers=headers) as events:
        line: bytes = await events.content.readline()
        return line.decode().strip()


@pytest.mark.parametrize("durability", ["disk", "memory"])
async def test_a_call_is_issued_only_after_it_is_on_disk(durability: str, tmp_path: Path) -> None:
    async with http_cluster(tmp_path, datatype="kv", durability=durability) as http:
        await http.post("/operations/put?consistency=strong", {"key": "a", "value": 0})
        file_ops = http.cluster.servers[0].journal._writer._file_ops = SlowFileOps()
        path = "/operations/put?consistency=strong&timeout=0"
        issued = asyncio.create_task(http.post(path, {"key": "a", "value": 1}))
        events = asyncio.create_task(first_line(http, {"key": "a", "value": 2}))
        done, _ = await asyncio.wait([issued, events], timeout=0.5)
        file_ops.allowed.release(1000)
        assert len(done) == (0 if durability == "disk" else 2)
        assert (await issued).status in (200, 202)
        assert await events == "event: issued"


async def test_a_call_that_does_not_reach_the_disk_is_reported(tmp_path: Path) -> None:
    server_limits = ServerLimits(backup=BackupLimits(durable_timeout_s=0.05))
    async with http_cluster(tmp_path, server_limits=server_limits, datatype="kv") as http:
        file_ops = http.cluster.servers[0].journal._writer._file_ops = SlowFileOps()
        put = {"key": "a", "value": 1}
        response = await http.post("/operations/put?timeout=0", put)
        file_ops.allowed.release(1000)
        assert (response.status, response.problem) == (503, RejectReason.DISK)
        assert response.body["certainly_not_done"] is False
        events = await http.events("GET", f"/calls/{response.body['call']}/events")
        assert events[-1].name == "final"


async def test_responses_are_streamed_as_events(tmp_path: Path) -> None:
    async with http_cluster(tmp_path) as http:
        headers = {"Accept": "text/event-stream"}
        body = {"name": "ann", "amount": 7}
        events = await http.events("POST", "/operations/open", json=body, headers=headers)
        values = [(each.name, each.data.get("value")) for each in events]
        assert values == [("issued", None), ("tentative", 7), ("final", 7)]
        events = await http.events("POST", "/operations/total", json={}, headers=headers)
        values = [(each.name, each.data.get("value")) for each in events]
        assert values == [("issued", None), ("tentative", 7)]
        rejection = await http.post("/operations/open", {"name": 1}, headers=headers)
        assert rejection.problem == RejectReason.BAD_ARGUMENTS


async def test_old_calls_are_evicted(tmp_path: Path) -> None:
    calls_max = 100
    async with http_cluster(tmp_path, limits=HttpLimits(calls_max=calls_max)) as http:
        call_history = http.http_servers[0].api.calls
        first = (await http.post("/operations/open", {"name": "ann"})).body["call"]
        assert (await http.get(f"/calls/{first}")).status == 200
        newer_calls = [calls.HttpCall("", CallRequest(0, "open"), False) for _ in range(calls_max)]
        for number, call in enumerate(newer_calls):
            call.id = f"9.{number}"
            call_history.add(call)
        assert len(call_history) == calls_max
        response = await http.get(f"/calls/{first}")
        assert (response.status, response.problem) == (404, RejectReason.UNKNOWN_CALL)
        assert http.cluster.servers[0].dispatcher.in_flight == 0


async def test_retained_responses_are_bounded_in_bytes(tmp_path: Path) -> None:
    limits = HttpLimits(response_bytes_max=100_000)
    async with http_cluster(tmp_path, limits=limits, datatype="kv") as http:
        call_history = http.http_servers[0].api.calls
        await http.post("/operations/put?consistency=strong", {"key": "a", "value": "x" * 999})
        for _ in range(3):
            await http.post("/operations/get?consistency=strong", {"key": "a"})
            # A weak read is not retained after its only response.
            await http.post("/operations/get", {"key": "a"})
        assert len(call_history) == 4
        assert call_history.response_bytes > 3 * 999
        assert call_history.response_bytes == sum(
            call.response_bytes for call in call_history._calls.values()
        )
        call = calls.HttpCall("", CallRequest(0, "get", strong=True), False)
        call.id = "9.1"
        call_history.add(call)
        outcome = Outcome(b"x" * limits.response_bytes_max)
        call.send_response(1, Response(Dot(9, 1), 0, ResponseKind.TENTATIVE, outcome))
        assert list(call_history._calls) == ["9.1"]
        assert call_history.response_bytes == call.response_bytes


async def test_completed_calls_are_released(tmp_path: Path) -> None:
    async with http_cluster(tmp_path) as http:
        for path in ("open", "open", "total", "total?consistency=strong"):
            body = {"name": "ann"} if path == "open" else {}
            await http.post(f"/operations/{path}", body)
        await http.cluster.until_quiescent()
        server = http.cluster.servers[0]
        assert server.dispatcher.in_flight == 0
        assert server.dispatcher._open_calls == {}
        assert http.http_servers[0].api.open_event_streams == 0
