"""What Prometheus reads."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.http.served import Served, run, served

Metrics = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def metrics(http: Served, replica: int = 0) -> Metrics:
    """By name and labels, as Prometheus' own parser understands them."""
    told = await http.get("/metrics", replica)
    assert told.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    found: Metrics = {}
    for family in text_string_to_metric_families(told.body):
        assert family.documentation, family.name
        assert family.type != "unknown", family.name
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found
            found[key] = sample.value
    return found


def of(found: Metrics, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def test_calls_are_counted_by_the_kind_of_their_answers(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, replicas=3) as http:
            await http.post("/operations/open?wait=final", {"name": "ann"})
            await http.post("/operations/total")
            await http.post("/operations/total?consistency=strong")
            await http.post("/operations/opne")
            await http.cluster.until_settled()
            found = await metrics(http)
            counts = {
                answer: of(found, "creek_call_seconds_count", answer=answer)
                for answer in ("weak_tentative", "weak_final", "strong_stable")
            }
            assert counts == {"weak_tentative": 2, "weak_final": 1, "strong_stable": 1}
            infinite = {"answer": "weak_final", "le": "+Inf"}
            assert of(found, "creek_call_seconds_bucket", **infinite) == 1
            committed = http.cluster.servers[0].status()["committed"]
            assert of(found, "creek_committed_length") == committed
            assert of(found, "creek_tentative_length") == 0
            assert of(found, "creek_refused_total", reason="unknown_operation") == 1
            assert of(found, "creek_fsync_seconds_count") > 0
            assert of(found, "creek_execution_seconds_total") > 0
            assert of(found, "creek_peer_sent_bytes_total") > 0
            assert of(found, "creek_http_answers_total", status="404") == 1
            assert of(found, "creek_http_requests") == 1
            leaders = [of(await metrics(http, each), "creek_leader") for each in range(3)]
            leading = [of(await metrics(http, each), "creek_leading") for each in range(3)]
            assert len(set(leaders)) == 1
            assert leading.index(1) == leaders[0]
            assert sum(leading) == 1
            assert {of(found, "creek_peer_up", peer=peer) for peer in "12"} == {1}
            assert of(found, "creek_members") == 3

    run(story())


def test_an_answer_that_changed_is_an_apology(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, replicas=2) as http:
            await http.post("/operations/open?consistency=strong", {"name": "ann", "amount": 5})
            servers = http.cluster.servers
            for one, other in ((0, 1), (1, 0)):
                servers[one].peers.links[other].send = lambda frame: None  # type: ignore[method-assign]
            for replica in (0, 1):
                told = await http.post(
                    "/operations/withdraw", {"name": "ann", "amount": 5}, replica
                )
                assert told.body["value"] == 0
            for one, other in ((0, 1), (1, 0)):
                del servers[one].peers.links[other].send
            await http.cluster.until_settled()
            both = [await metrics(http, replica) for replica in (0, 1)]
            assert sum(of(each, "creek_apologies_total") for each in both) == 1
            assert sum(of(each, "creek_reexecutions_total") for each in both) >= 1

    run(story())
