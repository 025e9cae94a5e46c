"""SQL over HTTP."""

from pathlib import Path

import pytest

from tests.http.http_cluster import http_cluster

CREATE = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE, picture BLOB)"
INSERT = {"sql": "INSERT INTO item VALUES (?, ?, ?)", "parameters": [1, "tea", {"$bytes": "AP8="}]}


async def test_statements_are_one_transaction(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, replicas=1, datatype="sql") as http:
        changed = await http.post("/sql?consistency=strong", {"statements": [CREATE, INSERT]})
        assert (changed.status, changed.body["kind"]) == (200, "stable")
        assert [each["row_count"] for each in changed.body["value"]] == [0, 1]
        failed = await http.post(
            "/sql?consistency=strong",
            {"statements": ["INSERT INTO item(name) VALUES ('milk')", INSERT]},
        )
        assert (failed.status, failed.problem) == (409, "operation_raised")
        assert "UNIQUE constraint failed: item.id" in failed.body["detail"]
        mixed = ["DELETE FROM item WHERE id > 1", "SELECT count(*) FROM item"]
        assert (await http.post("/sql", {"statements": mixed})).body["operation"] == "transaction"
        query = {
            "sql": "SELECT id, name, picture FROM item WHERE id = :id",
            "parameters": {"id": 1},
        }
        read = await http.post("/sql", {"statements": [query, "SELECT count(*) FROM item"]})
        assert read.body["kind"] == "tentative"
        assert read.body["value"][0]["columns"] == ["id", "name", "picture"]
        assert read.body["value"][0]["rows"] == [[1, "tea", {"$bytes": "AP8="}]]
        assert read.body["value"][1]["rows"] == [[1]]


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        ({}, 422, "'statements'"),
        ({"statements": []}, 422, "at least one statement"),
        ({"statements": [3]}, 422, "statement 1 must be a string"),
        ({"statements": ["SELECT 1", {"sql": "SELECT ?", "params": [1]}]}, 422, "statement 2"),
        ({"statements": [{"sql": "SELECT ?", "parameters": 1}]}, 422, "an array or an object"),
        ({"statements": ["SELEC 1"]}, 409, 'near "SELEC": syntax error (line 1, column 1)'),
        ({"statements": ["SELECT 1; SELECT 2"]}, 409, "expected one statement"),
        ({"statements": [{"sql": "SELECT ?", "parameters": []}]}, 409, "parameter"),
    ],
)
async def test_malformed_bodies_and_statements_are_problems(
    tmp_path: Path, body: object, status: int, detail: str
) -> None:
    async with http_cluster(tmp_path, replicas=1, datatype="sql") as http:
        response = await http.post("/sql", body)
        assert response.status == status
        assert response.headers["Content-Type"] == "application/problem+json"
        assert detail in response.body["detail"]


async def test_large_integers_are_tagged_on_request(tmp_path: Path) -> None:
    large = 2**53 + 1
    tagged = {"$integer": str(large)}
    create = "CREATE TABLE item(id INTEGER PRIMARY KEY, number INTEGER)"
    insert = {"sql": "INSERT INTO item VALUES (?, 7) RETURNING *", "parameters": [tagged]}
    query = {"sql": "SELECT id FROM item WHERE id = :id", "parameters": {"id": tagged}}
    async with http_cluster(tmp_path, replicas=1, datatype="sql") as http:
        await http.post("/sql?consistency=strong", {"statements": [create]})
        path = "/sql?integers=tagged"
        inserted = await http.post(f"{path}&consistency=strong", {"statements": [insert]})
        assert inserted.body["value"][0]["rows"] == [[tagged, 7]]
        assert inserted.body["value"][0]["last_row_id"] == tagged
        call = await http.get(inserted.headers["Location"])
        assert call.body["responses"][-1]["value"] == inserted.body["value"]
        read = await http.post(path, {"statements": [query]})
        assert read.body["value"][0]["rows"] == [[tagged]]
        plain = await http.post("/sql?integers=number", {"statements": [query]})
        assert plain.body["value"][0]["rows"] == [[large]]
        assert (await http.post("/sql?integers=text", {"statements": [query]})).status == 400


async def test_only_data_types_with_sql_have_the_path(tmp_path: Path) -> None:
    async with http_cluster(tmp_path / "sql", replicas=1, datatype="sql") as http:
        path = (await http.get("/openapi.json")).body["paths"]["/sql"]["post"]
        assert path["operationId"] == "execute_sql"
        assert "problem+json" in str(path["responses"]["409"])
    async with http_cluster(tmp_path / "kv", replicas=1, datatype="kv") as http:
        assert "/sql" not in (await http.get("/openapi.json")).body["paths"]
        assert (await http.post("/sql", {"statements": ["SELECT 1"]})).status == 404
