"""The page, and the stream that it follows."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from creekdb.http.page import feed
from creekdb.http.requests import HttpLimits
from creekdb.server.runtime.config import SecurityConfig
from creekdb.server.security.authentication import AccessTokens
from creekdb.wire.dev_control import DevControl
from tests.cluster.house import PATIENCE_S
from tests.http.served import Event, Served, run, served

FELLOW = "http://127.0.0.1:7301"
STRANGER = "http://127.0.0.1:9999"


async def watched(http: Served, **more: Any) -> AsyncIterator[Event]:
    async with asyncio.timeout(PATIENCE_S), http.open("GET", "/watch", **more) as response:
        assert (response.status, response.content_type) == (200, "text/event-stream")
        name = ""
        async for line in response.content:
            text = line.decode().rstrip()
            if text.startswith("event: "):
                name = text.removeprefix("event: ")
            elif text.startswith("data: "):
                yield Event(name, json.loads(text.removeprefix("data: ")))


def is_looked_at(http: Served) -> bool:
    return http.cluster.servers[0].driver.task_observer is not None


def test_everybody_may_have_the_page_and_who_has_a_token_what_it_shows(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, security=SecurityConfig(tokens={"till": "s3cret"})) as http:
            page = await http.get("/")
            assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
            assert "script-src 'self'" in page.headers["Content-Security-Policy"]
            for line in page.body.splitlines():
                for name in ("src", "href"):
                    asset = line.partition(f'{name}="/page/')[2].partition('"')[0]
                    if asset:
                        assert (await http.get(f"/page/{asset}")).status == 200, asset
            assert (await http.get("/page/nothing.js")).problem == "not_found"
            assert (await http.get("/page/..%2fpaths.py")).problem == "not_found"
            assert (await http.get("/watch")).problem == "token"
            known = {"Authorization": "Bearer s3cret"}
            following = watched(http, headers=known)
            assert (await anext(following)).name == "about"
            http.cluster.servers[0].dispatcher.replace_tokens(
                AccessTokens(SecurityConfig(tokens={"till": "new"}))
            )
            async for _ in following:  # until it ends
                pass
            assert (await http.get("/watch", headers=known)).problem == "token"

    run(story())


def test_the_stream_tells_of_the_order_and_of_every_answer(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as http:
            told = watched(http)
            about = (await anext(told)).data
            assert (about["replica"], about["members"], about["datatype"]) == (0, [0], "bank")
            assert about["trial"] is None
            opens = next(each for each in about["operations"] if each["name"] == "open")
            assert opens["takes"][0]["name"] == "name"
            assert opens["readonly"] is False
            assert (await anext(told)).data["committed"] == []
            await http.post("/operations/open?wait=final", {"name": "ann"})
            await http.post("/operations/withdraw?consistency=strong", {"name": "x", "amount": 1})
            async for _, now in told:
                shown = {each["says"].partition("(")[0]: each for each in now["committed"]}
                answers = shown.get("withdraw", {}).get("answers")
                if answers and answers[-1]["kind"] == "stable":
                    break
            weak = shown["open"]
            assert weak["says"] == "open('ann')"
            assert (weak["id"], weak["strong"], weak["own"], weak["place"]) == (
                "0.1",
                False,
                False,
                0,
            )
            assert [each["kind"] for each in weak["answers"]] == ["tentative", "final"]
            assert shown["noop"]["own"] is True
            assert answers[-1]["raised"] is True
            assert sum(now["calls"]["weak_tentative"]["counts"]) == 1

    run(story())


def test_what_a_page_needs_is_kept_for_a_while_and_then_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "LINGER_S", 3 * feed.UPDATE_INTERVAL_S)

    async def story() -> None:
        async with served(tmp_path) as http:
            assert not is_looked_at(http)
            async for _ in watched(http):
                break
            assert is_looked_at(http)
            async with asyncio.timeout(PATIENCE_S):
                while is_looked_at(http):
                    await asyncio.sleep(0.02)
            async for told in watched(http):  # and begins anew
                assert told.name == "about"
                break

    run(story())


def test_there_are_only_so_many_pages(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, limits=HttpLimits(pages_max=1)) as http:
            async for _ in watched(http):
                told = await http.get("/watch")
                assert (told.status, told.problem) == (503, "busy")
                break

    run(story())


def test_pages_of_other_replicas_may_look_and_in_a_trial_call(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as http:
            server = http.cluster.servers[0]
            server.peers.http_urls[1] = FELLOW
            fellow, stranger = {"Origin": FELLOW}, {"Origin": STRANGER}
            localhost = {"Origin": FELLOW.replace("127.0.0.1", "localhost")}
            for known in (fellow, localhost):
                async for _ in watched(http, headers=known):
                    break
            assert (await http.get("/watch", headers=stranger)).problem == "origin"
            assert (await http.get("/status", headers=fellow)).problem == "origin"
            asked = {**fellow, "Access-Control-Request-Method": "GET"}
            told = await http.ask("OPTIONS", "/watch", headers=asked)
            assert (told.status, told.headers["Access-Control-Allow-Origin"]) == (204, FELLOW)
            call = "/operations/open"
            assert (await http.ask("OPTIONS", call, headers=asked)).problem == "origin"
            assert (await http.post(call, {"name": "a"}, headers=fellow)).problem == "origin"

            server.apply_dev_control(
                DevControl(control="http://127.0.0.1:1", secret="s", pages={1: FELLOW})
            )
            told = await http.post(call, {"name": "ann"}, headers=fellow)
            assert (told.status, told.headers["Access-Control-Allow-Origin"]) == (200, FELLOW)
            assert (await http.post(call, {"name": "bob"}, headers=localhost)).status == 200
            assert (await http.post(call, {"name": "b"}, headers=stranger)).problem == "origin"
            rebound = {"Host": "evil.example:80"}
            assert (await http.get("/", headers=rebound)).problem == "origin"
            async for event in watched(http):
                trial = {"control": "http://127.0.0.1:1", "secret": "s", "replicas": [1]}
                assert event.data["trial"] == trial
                break

    run(story())
