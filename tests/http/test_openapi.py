"""OpenAPI description, and its conformance according to schemathesis."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from creekdb.http.requests import HttpLimits
from creekdb.wire.reject_reason import REJECT_RULES, RejectReason
from tests.http.http_cluster import http_cluster

SCHEMATHESIS = Path(sys.executable).with_name("st")
CHECKS_MODULE = "tests.http.schemathesis_checks"
DATATYPES = ("tests.http.argument_types:ARGUMENTS", "bank")
ROOT = Path(__file__).parents[2]
EXAMPLES = os.environ.get("CREEK_HTTP_EXAMPLES")
"""Number of random examples for each operation. Default: five, the same in each run."""
SHORT_TIMEOUTS = HttpLimits(timeout_s_default=0.02, timeout_s_max=0.05)
"""Short timeouts, since generated calls may wait for unknown dependencies."""


async def openapi(directory: Path, datatype: str) -> dict[str, Any]:
    document: dict[str, Any] = {}
    async with http_cluster(directory, datatype=datatype) as http:
        document.update((await http.get("/openapi.json")).body)
    return document


async def test_operations_are_described_with_their_parameters(tmp_path: Path) -> None:
    document = await openapi(tmp_path, "bank")
    assert document["openapi"] == "3.1.0"
    withdraw = document["paths"]["/operations/withdraw"]["post"]
    assert withdraw["summary"] == "withdraw(name: str, amount: int)"
    assert withdraw["x-creek-readonly"] is False
    body = withdraw["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["name", "amount"]
    assert body["properties"]["amount"]["type"] == "integer"
    total = document["paths"]["/operations/total"]["post"]
    assert total["x-creek-readonly"] is True
    assert "Read-only" in total["description"]
    request_body = document["paths"]["/operations/open"]["post"]["requestBody"]
    assert (
        request_body["content"]["application/json"]["schema"]["properties"]["amount"]["default"]
        == 0
    )


async def test_every_problem_kind_is_described(tmp_path: Path) -> None:
    document = await openapi(tmp_path, "bank")
    described = {
        name
        for path in document["paths"].values()
        for operation in path.values()
        for status, response in operation["responses"].items()
        for name, rule in REJECT_RULES.items()
        if int(status) == rule.http_status and f"`{name}`" in response["description"]
    }
    # Unknown paths, unknown methods and internal errors belong to no described path.
    reasons = {name for name, rule in REJECT_RULES.items() if rule.http_status is not None}
    assert reasons - described == {
        RejectReason.UNKNOWN_PATH,
        RejectReason.UNSUPPORTED_METHOD,
        RejectReason.INTERNAL_ERROR,
    }


async def test_arguments_of_all_types_are_accepted(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, datatype="tests.http.argument_types:ARGUMENTS") as http:
        arguments = {
            "number": 7,
            "text": "ü",
            "pairs": [["a", 1]],
            "blob": {"$bytes": "AAE="},
            "table": {"x": None},
        }
        path = (await http.get("/openapi.json")).body["paths"]["/operations/take"]["post"]
        schema = path["requestBody"]["content"]["application/json"]["schema"]
        jsonschema.validate(arguments, schema, jsonschema.Draft202012Validator)
        response = await http.post("/operations/take?consistency=strong", arguments)
        expected = [7, "ü", False, 0.5, {"$bytes": "AAE="}, [["a", 1]], {"x": None}, "red"]
        assert response.body["value"] == expected
        response = await http.post("/operations/count", {"things": [1, {"a": 2}]})
        assert response.body["value"] == 2
        response = await http.post("/operations/untyped", {"thing": [None]})
        assert response.body["value"] == [None]


@pytest.mark.parametrize("datatype", DATATYPES if EXAMPLES else DATATYPES[:1])
async def test_every_response_to_generated_requests_conforms(tmp_path: Path, datatype: str) -> None:
    """Schemathesis derives requests from the description, valid and invalid ones."""
    generation = ["--max-examples", EXAMPLES or "5"]
    if EXAMPLES is None:
        generation.append("--generation-deterministic")
    async with http_cluster(tmp_path, datatype=datatype, limits=SHORT_TIMEOUTS) as http:
        process = await asyncio.create_subprocess_exec(
            *(SCHEMATHESIS, "--no-color", "run", http.url("/openapi.json")),
            *("--phases", "coverage,fuzzing,stateful", "--checks", "all"),
            *("--exclude-checks", "positive_data_acceptance"),
            *(*generation, "--request-timeout", "10"),
            cwd=tmp_path,
            env={**os.environ, "SCHEMATHESIS_HOOKS": CHECKS_MODULE, "PYTHONPATH": str(ROOT)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        assert process.returncode == 0, output.decode()
        assert http.cluster.servers[0].status()["executions"] > 0
        assert {200, 202, 400, 404, 405, 409, 422} <= {
            *http.http_servers[0].api.responses_by_status
        }
