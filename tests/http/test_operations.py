"""Calling operations over HTTP."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from creekdb.http import calls
from creekdb.server.backup import capture
from creekdb.wire.messages import CallResponse
from tests.cluster.house import PATIENCE_S
from tests.cluster.test_other_modules import NEW, OLD
from tests.http.served import Event, Served, run, served
from tests.unit.server.storage.faulty_file_ops import SlowCalls

ANSWER = {"error": None, "changed": False}


def test_weak_and_strong_calls_are_answered(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, replicas=3) as http:
            told = await http.post("/operations/open", {"name": "ann", "amount": 100})
            call = {"call": "0.1", "operation": "open"}
            assert (told.status, told.body) == (
                200,
                {**call, "kind": "tentative", "value": 100, **ANSWER},
            )
            assert told.headers["Location"] == "/calls/0.1"
            told = await http.post(
                "/operations/transfer?consistency=strong",
                {"giver": "ann", "taker": "ann", "amount": 30},
            )
            assert (told.body["kind"], told.body["value"]) == ("stable", [100, 100])
            told = await http.post("/operations/deposit?wait=final", {"name": "ann", "amount": 1})
            assert (told.body["kind"], told.body["value"]) == ("final", 101)
            for replica in range(3):
                told = await http.post("/operations/total?consistency=strong", replica=replica)
                assert (told.body["kind"], told.body["value"]) == ("stable", 101)

    run(story())


def test_a_default_stands_in_for_what_is_not_given(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, datatype="kv") as http:
            for key in ("a", "b", "c"):
                await http.post("/operations/put", {"key": key, "value": {"$bytes": "AAE="}})
            told = await http.post("/operations/scan", {"limit": 2})
            assert told.body["value"] == [["a", {"$bytes": "AAE="}], ["b", {"$bytes": "AAE="}]]
            told = await http.post("/operations/increment", {"key": "n", "amount": 2.0})
            assert told.body["value"] == 2

    run(story())


def test_an_operation_that_raises_has_answered(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as http:
            for query, certain in (("", False), ("?consistency=strong", True)):
                told = await http.post(f"/operations/close{query}", {"name": "bob"})
                assert (told.status, told.problem) == (409, "operation_raised")
                assert told.body["detail"] == "LookupError: bob has no account"
                assert told.body["certainly_not_done"] is certain
                assert told.body["kind"] == ("stable" if certain else "tentative")

    run(story())


def test_a_call_that_is_asked_again_anywhere_is_executed_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, replicas=2) as http:
            await http.post("/operations/open?consistency=strong", {"name": "ann"})
            mine = {"Creek-Client": "till-7", "Creek-Call": "1"}
            gift = {"name": "ann", "amount": 5}
            path = "/operations/deposit?consistency=strong"
            for replica in (0, 0, 1):
                told = await http.post(path, gift, replica, headers=mine)
                assert told.body["value"] == 5
            next_one = {**mine, "Creek-Call": "2"}
            assert (await http.post(path, gift, 1, headers=next_one)).body["value"] == 10
            assert (await http.post(path, gift)).body["value"] == 15
            told = await http.post(path, {"name": "ann", "amount": 6}, headers=mine)
            assert (told.status, told.problem) == (409, "operation_raised")
            told_as = "NumberUsed: call 1 of till-7 was another operation"
            assert told.body["detail"] == told_as
            assert (await http.post("/operations/total")).body["value"] == 15

    run(story())


def test_a_call_can_come_after_one_that_was_made_elsewhere(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, replicas=2) as http:
            call = (await http.post("/operations/open", {"name": "ann", "amount": 3})).body["call"]
            told = await http.post(f"/operations/balance?after={call}", {"name": "ann"}, 1)
            assert told.body["value"] == 3
            told = await http.post("/operations/total?after=0.999&timeout=0.05", replica=1)
            assert (told.status, told.problem) == (424, "deadline")
            assert told.body["certainly_not_done"] is True
            assert "0.999" in told.body["detail"]

    run(story())


def test_an_answer_that_does_not_come_in_time_can_be_followed(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, replicas=2) as http:
            await http.post("/operations/open?consistency=strong", {"name": "ann"})
            await http.cluster.stop(1)
            path = "/operations/deposit?consistency=strong&timeout=0.2"
            told = await http.post(path, {"name": "ann", "amount": 1})
            assert told.status == 202
            assert told.body["over"] is False
            assert {each["kind"] for each in told.body["answers"]} <= {"tentative"}
            await http.cluster.start(1)
            async with asyncio.timeout(PATIENCE_S):
                events = await http.events("GET", told.headers["Location"] + "/events")
            assert events[0] == Event("issued", {"call": told.body["call"], "operation": "deposit"})
            assert events[-1] == Event("stable", {"kind": "stable", "value": 1, **ANSWER})
            told = await http.get(told.headers["Location"])
            assert told.body["over"] is True
            assert told.body["answers"][-1]["value"] == 1

    run(story())


def test_what_came_of_a_call_may_be_known_elsewhere_alone(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, replicas=2) as http:
            await http.post("/operations/open?consistency=strong", {"name": "ann"})
            await http.cluster.stop(1)
            desk = http.cluster.servers[0].dispatcher
            path = "/operations/deposit?consistency=strong"
            told = await http.post(f"{path}&timeout=0.2", {"name": "ann", "amount": 1})
            assert told.status == 202
            followed = asyncio.create_task(http.events("GET", told.headers["Location"] + "/events"))
            waited = asyncio.create_task(http.post(path, {"name": "ann", "amount": 1}))
            while len(desk.open_calls()) < 2:
                await asyncio.sleep(0.01)
            desk.abandon(desk.open_calls())
            found = await waited
            assert (found.status, found.problem) == (410, "untold")
            assert found.body["certainly_not_done"] is False
            assert {each["kind"] for each in found.body["answers"]} <= {"tentative"}
            *_, last = await followed
            assert (last.name, last.data["status"]) == ("untold", 410)
            later = await http.get(told.headers["Location"])
            assert (later.status, later.body["over"]) == (200, True)

    run(story())


def test_what_another_replica_could_not_carry_out_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, replicas=2, datatype=NEW) as http:
            await http.cluster.stop(1)
            await http.cluster.start(1, datatype=OLD)
            await http.cluster.until_connected()
            found = await http.post("/operations/leave", {"room": "blue"})
            assert (found.status, found.problem) == (404, "unknown_operation")
            assert found.body["certainly_not_done"] is True
            assert found.body["detail"].startswith("replica 1 has no operation 'leave'")
            assert (await http.post("/operations/book", {"room": "blue"})).status == 200

    run(story())


async def first_line(http: Served, put: dict[str, Any]) -> str:
    wants = {"Accept": "text/event-stream"}
    async with http.open("POST", "/operations/put", json=put, headers=wants) as followed:
        line: bytes = await followed.content.readline()
        return line.decode().strip()


@pytest.mark.parametrize("durability", ["disk", "memory"])
def test_a_call_is_named_when_it_is_on_disk(durability: str, tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, datatype="kv", durability=durability) as http:
            await http.post("/operations/put?consistency=strong", {"key": "a", "value": 0})
            on_disk = http.cluster.servers[0].journal._writer._file_ops = SlowCalls()
            path = "/operations/put?consistency=strong&timeout=0"
            named = asyncio.create_task(http.post(path, {"key": "a", "value": 1}))
            followed = asyncio.create_task(first_line(http, {"key": "a", "value": 2}))
            told, _ = await asyncio.wait([named, followed], timeout=0.5)
            on_disk.allowed.release(1000)
            assert len(told) == (0 if durability == "disk" else 2)
            assert (await named).status in (200, 202)
            assert await followed == "event: issued"

    run(story())


def test_a_call_that_does_not_get_to_the_disk_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "PATIENCE_S", 0.05)

    async def story() -> None:
        async with served(tmp_path, datatype="kv") as http:
            on_disk = http.cluster.servers[0].journal._writer._file_ops = SlowCalls()
            put = {"key": "a", "value": 1}
            told = await http.post("/operations/put?timeout=0", put)
            on_disk.allowed.release(1000)
            assert (told.status, told.problem) == (503, "disk")
            assert told.body["certainly_not_done"] is False
            events = await http.events("GET", f"/calls/{told.body['call']}/events")
            assert events[-1].name == "final"

    run(story())


def test_answers_are_told_as_events(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as http:
            wants = {"Accept": "text/event-stream"}
            body = {"name": "ann", "amount": 7}
            events = await http.events("POST", "/operations/open", json=body, headers=wants)
            told = [(each.name, each.data.get("value")) for each in events]
            assert told == [("issued", None), ("tentative", 7), ("final", 7)]
            events = await http.events("POST", "/operations/total", json={}, headers=wants)
            told = [(each.name, each.data.get("value")) for each in events]
            assert told == [("issued", None), ("tentative", 7)]
            refused = await http.post("/operations/open", {"name": 1}, headers=wants)
            assert refused.problem == "bad_arguments"

    run(story())


def test_old_calls_are_forgotten(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as http:
            kept = http.gateways[0].api.calls
            first = (await http.post("/operations/open", {"name": "ann"})).body["call"]
            assert (await http.get(f"/calls/{first}")).status == 200
            filler = [calls.HttpCall("open", False, False) for _ in range(calls.CALLS_MAX)]
            for number, call in enumerate(filler):
                call.id = f"9.{number}"
                kept.add(call)
            assert len(kept) == calls.CALLS_MAX
            told = await http.get(f"/calls/{first}")
            assert (told.status, told.problem) == (404, "unknown_call")
            assert http.cluster.servers[0].dispatcher.in_flight == 0

    run(story())


def test_long_answers_are_not_kept_for_long(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, datatype="kv") as http:
            kept = http.gateways[0].api.calls
            await http.post("/operations/put?consistency=strong", {"key": "a", "value": "x" * 999})
            for _ in range(3):
                await http.post("/operations/get?consistency=strong", {"key": "a"})
                await http.post("/operations/get", {"key": "a"})  # told, and forgotten
            assert len(kept) == 4
            assert kept.response_bytes > 3 * 999
            assert kept.response_bytes == sum(call.response_bytes for call in kept._calls.values())
            call = calls.HttpCall("get", True, False)
            call.id = "9.1"
            kept.add(call)
            call.receive(CallResponse(1, "tentative", b"x" * calls.RESPONSE_BYTES_MAX))
            assert list(kept._calls) == ["9.1"]
            assert kept.response_bytes == call.response_bytes

    run(story())


def test_nothing_is_left_of_calls_that_are_over(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as http:
            for path in ("open", "open", "total", "total?consistency=strong"):
                body = {"name": "ann"} if path == "open" else {}
                await http.post(f"/operations/{path}", body)
            await http.cluster.until_settled()
            server = http.cluster.servers[0]
            assert server.dispatcher.in_flight == 0
            assert server.dispatcher._open_calls == {}
            assert http.gateways[0].api.open_event_streams == 0

    run(story())
