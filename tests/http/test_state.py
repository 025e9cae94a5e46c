"""Committed state over HTTP."""

import asyncio
import errno
import json
from pathlib import Path

from creekdb.wire.reject_reason import RejectReason
from tests.cluster.in_process_cluster import TIMEOUT_S
from tests.http.http_cluster import http_cluster
from tests.unit.server.storage.faulty_file_ops import FaultyFileOps, SlowFileOps


async def test_committed_state_is_read_in_pages(tmp_path: Path) -> None:
    async with http_cluster(tmp_path) as http:
        names = ["ann", "bob", "cat"]
        for amount, name in enumerate(names):
            body = {"name": name, "amount": amount}
            await http.post(
                "/operations/open?consistency=strong",
                body,
                headers={"Creek-Client": "teller", "Creek-Call": str(amount)},
            )
        keys: list[list[str]] = []
        query: dict[str, str] = {"limit": "2", "prefix": '["account"]'}
        while True:
            page = (await http.get("/state", params=query)).body
            assert page["oldest"] <= page["at"] <= page["newest"]
            keys += [each["key"] for each in page["items"]]
            if page["next"] is None:
                break
            query |= {"after": page["next"], "at": str(page["at"])}
        assert keys == [["account", name] for name in names]
        # The registers of Creek itself are omitted.
        items = (await http.get("/state")).body["items"]
        assert [each["value"] for each in items] == [0, 1, 2]


async def test_state_is_read_while_a_thread_executes_operations(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, datatype="kv", execution="threads") as http:

        async def write(number: int) -> None:
            await http.post("/operations/put?wait=final", {"key": f"k{number}", "value": 1})

        async with asyncio.TaskGroup() as group:
            for number in range(30):
                group.create_task(write(number))
                page = (await http.get("/state?limit=3")).body
                assert len(page["items"]) <= 3
        assert len((await http.get("/state")).body["items"]) == 30


async def test_state_waits_until_commits_are_on_disk(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, datatype="kv") as http:
        server = http.cluster.servers[0]
        file_ops = server.journal._writer._file_ops = SlowFileOps()
        path = "/operations/put?consistency=strong"
        write = asyncio.create_task(http.post(path, {"key": "a", "value": 1}))
        async with asyncio.timeout(TIMEOUT_S):
            while not server.driver.replica.view.committed_length():
                await asyncio.sleep(0.01)
        state = asyncio.create_task(http.get("/state"))
        done, _ = await asyncio.wait([write, state], timeout=0.5)
        file_ops.allowed.release(1000)
        assert not done
        assert [each["value"] for each in (await state).body["items"]] == [1]
        assert (await write).status == 200


async def test_state_is_rejected_while_the_disk_fails(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, datatype="kv") as http:
        await http.post("/operations/put?consistency=strong", {"key": "a", "value": 1})
        journal = http.cluster.servers[0].journal
        file_ops = journal._writer._file_ops = FaultyFileOps()
        file_ops.errors["fdatasync"] = errno.EIO
        write = asyncio.create_task(http.post("/operations/put", {"key": "a", "value": 2}))
        async with asyncio.timeout(TIMEOUT_S):
            while journal.fault is None:
                await asyncio.sleep(0.01)
        assert (await http.get("/state")).problem == RejectReason.DISK
        file_ops.errors.clear()
        assert (await write).status == 200
        assert (await http.get("/state")).status == 200


async def test_prefixes_are_strings_or_tuples(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, datatype="kv") as http:
        for key in ("apple", "apricot", "pear", '"x"'):
            path = "/operations/put?consistency=strong"
            await http.post(path, {"key": key, "value": key})

        async def keys_with_prefix(prefix: str) -> list[str]:
            response = await http.get("/state", params={"prefix": prefix})
            return [each["key"] for each in response.body["items"]]

        assert await keys_with_prefix("ap") == ["apple", "apricot"]
        assert await keys_with_prefix(json.dumps("ap")) == ["apple", "apricot"]
        assert await keys_with_prefix(json.dumps('"')) == ['"x"']
        assert await keys_with_prefix("[]") == []


async def test_an_unavailable_state_is_reported_with_the_available_range(tmp_path: Path) -> None:
    async with http_cluster(tmp_path) as http:
        for _ in range(3):
            await http.post("/operations/noop?consistency=strong")
        newest = (await http.get("/state")).body["newest"]
        response = await http.get("/state?at=0")
        assert (response.status, response.problem) == (410, RejectReason.STATE_EXPIRED)
        assert response.body["oldest"] == newest
        response = await http.get(f"/state?at={newest + 1}")
        assert (response.status, response.problem) == (404, RejectReason.STATE_NOT_COMMITTED)
        assert response.body["newest"] == newest
        assert (await http.get(f"/state?at={newest}")).status == 200


async def test_tentative_values_are_not_shown(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, replicas=2) as http:
        await http.post("/operations/open?consistency=strong", {"name": "ann", "amount": 1})
        await http.cluster.stop(1)  # no majority is left
        response = await http.post("/operations/deposit", {"name": "ann", "amount": 9})
        assert response.body["value"] == 10
        assert (await http.get("/state")).body["items"] == [{"key": ["account", "ann"], "value": 1}]
