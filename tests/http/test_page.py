"""Page of the cluster, and its event stream."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from creekdb.http.page import feed
from creekdb.http.requests import HttpLimits
from creekdb.server.runtime.config import SecurityConfig
from creekdb.wire.dev_control import DevControl
from creekdb.wire.reject_reason import RejectReason
from tests.cluster.in_process_cluster import TIMEOUT_S
from tests.http.http_cluster import Event, HttpCluster, http_cluster

FOREIGN_ORIGIN = RejectReason.FOREIGN_ORIGIN

PEER_PAGE = "http://127.0.0.1:7301"
OTHER_SITE = "http://127.0.0.1:9999"


async def page_events(http: HttpCluster, **options: Any) -> AsyncIterator[Event]:
    async with asyncio.timeout(TIMEOUT_S), http.open("GET", "/watch", **options) as response:
        assert (response.status, response.content_type) == (200, "text/event-stream")
        name = ""
        async for line in response.content:
            text = line.decode().rstrip()
            if text.startswith("event: "):
                name = text.removeprefix("event: ")
            elif text.startswith("data: "):
                yield Event(name, json.loads(text.removeprefix("data: ")))


def is_observed(http: HttpCluster) -> bool:
    return http.cluster.servers[0].driver._task_observer is not None


async def test_the_page_is_public_and_its_stream_requires_a_token(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, security=SecurityConfig(tokens={"till": "s3cret"})) as http:
        page = await http.get("/")
        assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert "script-src 'self'" in page.headers["Content-Security-Policy"]
        for line in page.body.splitlines():
            for name in ("src", "href"):
                asset = line.partition(f'{name}="/page/')[2].partition('"')[0]
                if asset:
                    assert (await http.get(f"/page/{asset}")).status == 200, asset
        assert (await http.get("/page/nothing.js")).problem == RejectReason.UNKNOWN_PATH
        assert (await http.get("/page/..%2fpaths.py")).problem == RejectReason.UNKNOWN_PATH
        assert (await http.get("/watch")).problem == RejectReason.TOKEN
        headers = {"Authorization": "Bearer s3cret"}
        events = page_events(http, headers=headers)
        assert (await anext(events)).name == "about"
        http.cluster.servers[0].tokens.replace(SecurityConfig(tokens={"till": "new"}))
        async for _ in events:  # until the end of the stream
            pass
        assert (await http.get("/watch", headers=headers)).problem == RejectReason.TOKEN


async def test_the_stream_shows_the_order_and_every_response(tmp_path: Path) -> None:
    async with http_cluster(tmp_path) as http:
        events = page_events(http)
        about = (await anext(events)).data
        assert (about["replica"], about["members"], about["datatype"]) == (0, [0], "bank")
        assert about["trial"] is None
        operation = next(each for each in about["operations"] if each["name"] == "open")
        assert operation["takes"][0]["name"] == "name"
        assert operation["readonly"] is False
        assert (await anext(events)).data["committed"] == []
        await http.post("/operations/open?wait=final", {"name": "ann"})
        await http.post("/operations/withdraw?consistency=strong", {"name": "x", "amount": 1})
        async for _, now in events:
            entries = {each["says"].partition("(")[0]: each for each in now["committed"]}
            responses = entries.get("withdraw", {}).get("responses")
            if responses and responses[-1]["kind"] == "stable":
                break
        entry = entries["open"]
        assert entry["says"] == "open('ann')"
        assert (entry["id"], entry["strong"], entry["own"], entry["place"]) == (
            "0.1",
            False,
            False,
            0,
        )
        assert [each["kind"] for each in entry["responses"]] == ["tentative", "final"]
        assert entries["noop"]["own"] is True
        assert responses[-1]["raised"] is True
        assert sum(now["calls"]["weak_tentative"]["counts"]) == 1


async def test_the_page_feed_stops_after_an_idle_timeout(tmp_path: Path) -> None:
    limits = HttpLimits(page_idle_timeout_s=3 * feed.UPDATE_INTERVAL_S)
    async with http_cluster(tmp_path, limits=limits) as http:
        assert not is_observed(http)
        async for _ in page_events(http):
            break
        assert is_observed(http)
        async with asyncio.timeout(TIMEOUT_S):
            while is_observed(http):
                await asyncio.sleep(0.02)
        async for event in page_events(http):  # the feed starts again
            assert event.name == "about"
            break


async def test_pages_above_the_limit_are_rejected(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, limits=HttpLimits(pages_max=1)) as http:
        async for _ in page_events(http):
            response = await http.get("/watch")
            assert (response.status, response.problem) == (503, RejectReason.BUSY)
            break


async def test_pages_of_other_sites_open_no_stream_without_an_origin(tmp_path: Path) -> None:
    """A browser sends no `Origin` for an image or for a response that the page cannot read."""
    async with http_cluster(tmp_path) as http:
        call = (await http.post("/operations/open", {"name": "ann"})).body["call"]
        for site in ("cross-site", "same-site"):
            headers = {"Sec-Fetch-Site": site}
            for path in ("/watch", f"/calls/{call}/events", f"/calls/{call}", "/state", "/health"):
                async with http.open("GET", path, headers=headers) as response:
                    assert response.status == FOREIGN_ORIGIN.rule.http_status, path
            assert (await http.get("/", headers=headers)).status == 200  # a link to the page
        for site in ("same-origin", "none"):
            async for event in page_events(http, headers={"Sec-Fetch-Site": site}):
                assert event.name == "about"
                break


async def test_pages_of_peers_may_watch_and_call_under_dev_control(tmp_path: Path) -> None:
    async with http_cluster(tmp_path) as http:
        server = http.cluster.servers[0]
        server.peers.http_urls[1] = PEER_PAGE
        peer, foreign = {"Origin": PEER_PAGE}, {"Origin": OTHER_SITE}
        localhost = {"Origin": PEER_PAGE.replace("127.0.0.1", "localhost")}
        for headers in (peer, localhost):
            async for _ in page_events(http, headers=headers):
                break
        assert (await http.get("/watch", headers=foreign)).problem == FOREIGN_ORIGIN
        assert (await http.get("/status", headers=peer)).problem == FOREIGN_ORIGIN
        preflight = {**peer, "Access-Control-Request-Method": "GET"}
        response = await http.request("OPTIONS", "/watch", headers=preflight)
        assert (response.status, response.headers["Access-Control-Allow-Origin"]) == (
            204,
            PEER_PAGE,
        )
        call = "/operations/open"
        assert (await http.request("OPTIONS", call, headers=preflight)).problem == FOREIGN_ORIGIN
        assert (await http.post(call, {"name": "a"}, headers=peer)).problem == FOREIGN_ORIGIN

        server.apply_dev_control(
            DevControl(control="http://127.0.0.1:1", secret="s", pages={1: PEER_PAGE})
        )
        response = await http.post(call, {"name": "ann"}, headers=peer)
        assert (response.status, response.headers["Access-Control-Allow-Origin"]) == (
            200,
            PEER_PAGE,
        )
        assert (await http.post(call, {"name": "bob"}, headers=localhost)).status == 200
        assert (await http.post(call, {"name": "b"}, headers=foreign)).problem == FOREIGN_ORIGIN
        rebound = {"Host": "evil.example:80"}
        assert (await http.get("/", headers=rebound)).problem == FOREIGN_ORIGIN
        async for event in page_events(http):
            trial = {"control": "http://127.0.0.1:1", "secret": "s", "replicas": [1]}
            assert event.data["trial"] == trial
            break
