"""Reading committed state over HTTP."""

import asyncio
import errno
import json
from pathlib import Path

from tests.cluster.house import PATIENCE_S
from tests.http.served import run, served
from tests.unit.server.storage.faulty_file_ops import FaultyCalls, SlowCalls


def test_committed_state_is_read_in_pages(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as http:
            names = ["ann", "bob", "cat"]
            for amount, name in enumerate(names):
                body = {"name": name, "amount": amount}
                await http.post(
                    "/operations/open?consistency=strong",
                    body,
                    headers={"Creek-Client": "teller", "Creek-Call": str(amount)},
                )
            found: list[list[str]] = []
            query: dict[str, str] = {"limit": "2", "prefix": '["account"]'}
            while True:
                page = (await http.get("/state", params=query)).body
                assert page["oldest"] <= page["at"] <= page["newest"]
                found += [each["key"] for each in page["items"]]
                if page["next"] is None:
                    break
                query |= {"after": page["next"], "at": str(page["at"])}
            assert found == [["account", name] for name in names]
            everything = (await http.get("/state")).body["items"]
            assert [each["value"] for each in everything] == [0, 1, 2]  # and nothing of ours

    run(story())


def test_state_is_read_beside_operations_that_run_in_a_thread(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, datatype="kv", execution="threads") as http:

            async def write(number: int) -> None:
                await http.post("/operations/put?wait=final", {"key": f"k{number}", "value": 1})

            async with asyncio.TaskGroup() as group:
                for number in range(30):
                    group.create_task(write(number))
                    page = (await http.get("/state?limit=3")).body
                    assert len(page["items"]) <= 3
            assert len((await http.get("/state")).body["items"]) == 30

    run(story())


def test_what_is_not_on_disk_is_not_told_as_committed(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, datatype="kv") as http:
            server = http.cluster.servers[0]
            calls = server.journal._writer._file_ops = SlowCalls()
            path = "/operations/put?consistency=strong"
            put = asyncio.create_task(http.post(path, {"key": "a", "value": 1}))
            async with asyncio.timeout(PATIENCE_S):
                while not server.driver.replica.committed_length():
                    await asyncio.sleep(0.01)
            state = asyncio.create_task(http.get("/state"))
            told, _ = await asyncio.wait([put, state], timeout=0.5)
            calls.allowed.release(1000)
            assert not told
            assert [each["value"] for each in (await state).body["items"]] == [1]
            assert (await put).status == 200

    run(story())


def test_where_the_disk_fails_the_state_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, datatype="kv") as http:
            await http.post("/operations/put?consistency=strong", {"key": "a", "value": 1})
            journal = http.cluster.servers[0].journal
            calls = journal._writer._file_ops = FaultyCalls()
            calls.errors["fdatasync"] = errno.EIO
            put = asyncio.create_task(http.post("/operations/put", {"key": "a", "value": 2}))
            async with asyncio.timeout(PATIENCE_S):
                while journal.fault is None:
                    await asyncio.sleep(0.01)
            assert (await http.get("/state")).problem == "disk"
            calls.errors.clear()
            assert (await put).status == 200
            assert (await http.get("/state")).status == 200

    run(story())


def test_prefixes_are_of_strings_or_of_tuples(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, datatype="kv") as http:
            for key in ("apple", "apricot", "pear", '"x"'):
                path = "/operations/put?consistency=strong"
                await http.post(path, {"key": key, "value": key})

            async def found(prefix: str) -> list[str]:
                told = await http.get("/state", params={"prefix": prefix})
                return [each["key"] for each in told.body["items"]]

            assert await found("ap") == ["apple", "apricot"]
            assert await found(json.dumps("ap")) == ["apple", "apricot"]
            assert await found(json.dumps('"')) == ['"x"']
            assert await found("[]") == []

    run(story())


def test_a_state_that_is_not_held_is_told_with_those_that_are(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as http:
            for _ in range(3):
                await http.post("/operations/noop?consistency=strong")
            newest = (await http.get("/state")).body["newest"]
            told = await http.get("/state?at=0")
            assert (told.status, told.problem) == (410, "state_gone")
            assert told.body["oldest"] == newest
            told = await http.get(f"/state?at={newest + 1}")
            assert (told.status, told.problem) == (404, "state_to_come")
            assert told.body["newest"] == newest
            assert (await http.get(f"/state?at={newest}")).status == 200

    run(story())


def test_what_is_tentative_is_not_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, replicas=2) as http:
            await http.post("/operations/open?consistency=strong", {"name": "ann", "amount": 1})
            await http.cluster.stop(1)  # nothing can be agreed upon
            told = await http.post("/operations/deposit", {"name": "ann", "amount": 9})
            assert told.body["value"] == 10
            assert (await http.get("/state")).body["items"] == [
                {"key": ["account", "ann"], "value": 1}
            ]

    run(story())
