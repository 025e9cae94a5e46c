"""Metrics in the Prometheus format."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.http.http_cluster import HttpCluster, http_cluster

Metrics = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def metrics(http: HttpCluster, replica: int = 0) -> Metrics:
    """Return the samples by name and labels, as parsed by the Prometheus client."""
    response = await http.get("/metrics", replica)
    assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    samples: Metrics = {}
    for family in text_string_to_metric_families(response.body):
        assert family.documentation, family.name
        assert family.type != "unknown", family.name
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in samples
            samples[key] = sample.value
    return samples


def sample_value(samples: Metrics, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


async def test_calls_are_counted_by_the_kind_of_their_responses(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, replicas=3) as http:
        await http.post("/operations/open?wait=final", {"name": "ann"})
        await http.post("/operations/total")
        await http.post("/operations/total?consistency=strong")
        await http.post("/operations/opne")
        await http.cluster.until_quiescent()
        samples = await metrics(http)
        counts = {
            answer: sample_value(samples, "creek_call_seconds_count", answer=answer)
            for answer in ("weak_tentative", "weak_final", "strong_stable")
        }
        assert counts == {"weak_tentative": 2, "weak_final": 1, "strong_stable": 1}
        infinite = {"answer": "weak_final", "le": "+Inf"}
        assert sample_value(samples, "creek_call_seconds_bucket", **infinite) == 1
        committed = http.cluster.servers[0].status()["committed"]
        assert sample_value(samples, "creek_committed_length") == committed
        assert sample_value(samples, "creek_tentative_length") == 0
        assert sample_value(samples, "creek_rejected_total", reason="unknown_operation") == 1
        assert sample_value(samples, "creek_fsync_seconds_count") > 0
        assert sample_value(samples, "creek_execution_seconds_total") > 0
        assert sample_value(samples, "creek_peer_sent_bytes_total") > 0
        assert sample_value(samples, "creek_http_responses_total", status="404") == 1
        assert sample_value(samples, "creek_http_requests") == 1
        leaders = [sample_value(await metrics(http, each), "creek_leader") for each in range(3)]
        leading = [sample_value(await metrics(http, each), "creek_leading") for each in range(3)]
        assert len(set(leaders)) == 1
        assert leading.index(1) == leaders[0]
        assert sum(leading) == 1
        assert {sample_value(samples, "creek_peer_up", peer=peer) for peer in "12"} == {1}
        assert sample_value(samples, "creek_members") == 3


async def test_a_changed_response_is_counted_as_an_apology(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, replicas=2) as http:
        await http.post("/operations/open?consistency=strong", {"name": "ann", "amount": 5})
        restore = [
            http.cluster.drop_messages(sender, receiver) for sender, receiver in ((0, 1), (1, 0))
        ]
        for replica in (0, 1):
            response = await http.post(
                "/operations/withdraw", {"name": "ann", "amount": 5}, replica
            )
            assert response.body["value"] == 0
        for each in restore:
            each()
        await http.cluster.until_quiescent()
        replicas = [await metrics(http, replica) for replica in (0, 1)]
        assert sum(sample_value(each, "creek_apologies_total") for each in replicas) == 1
        assert sum(sample_value(each, "creek_reexecutions_total") for each in replicas) >= 1
