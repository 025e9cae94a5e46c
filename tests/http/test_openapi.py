"""The description of all paths, held against the paths by one who believes in it."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import jsonschema

from creekdb.http.requests import HttpLimits
from creekdb.http.responses import PROBLEM_KINDS
from tests.http.served import run, served

SCHEMATHESIS = Path(sys.executable).with_name("st")
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "unsupported_method",
)
QUICK = HttpLimits(timeout_s_default=0.02, timeout_s_max=0.05)
"""What schemathesis makes up may have to wait for calls that never come."""


def described(folder: Path, datatype: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    async def story() -> None:
        async with served(folder, datatype=datatype) as http:
            found.update((await http.get("/openapi.json")).body)

    run(story())
    return found


def test_operations_are_described_with_what_they_take(tmp_path: Path) -> None:
    found = described(tmp_path, "bank")
    assert found["openapi"] == "3.1.0"
    withdraw = found["paths"]["/operations/withdraw"]["post"]
    assert withdraw["summary"] == "withdraw(name: str, amount: int)"
    assert withdraw["x-creek-readonly"] is False
    body = withdraw["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["name", "amount"]
    assert body["properties"]["amount"]["type"] == "integer"
    total = found["paths"]["/operations/total"]["post"]
    assert total["x-creek-readonly"] is True
    assert "Only reads" in total["description"]
    opening = found["paths"]["/operations/open"]["post"]["requestBody"]
    assert opening["content"]["application/json"]["schema"]["properties"]["amount"]["default"] == 0


def test_every_problem_is_described(tmp_path: Path) -> None:
    found = described(tmp_path, "bank")
    told = {
        name
        for path in found["paths"].values()
        for operation in path.values()
        for status, response in operation["responses"].items()
        for name, kind in PROBLEM_KINDS.items()
        if int(status) == kind.status and f"`{name}`" in response["description"]
    }
    # What no description can have: paths that are not there, and mistakes of ours.
    assert PROBLEM_KINDS.keys() - told == {"not_found", "method", "internal"}


def test_arguments_of_all_types_arrive(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, datatype="tests.http.odd_types:ODD") as http:
            given = {
                "number": 7,
                "text": "ü",
                "pairs": [["a", 1]],
                "blob": {"$bytes": "AAE="},
                "table": {"x": None},
            }
            path = (await http.get("/openapi.json")).body["paths"]["/operations/take"]["post"]
            schema = path["requestBody"]["content"]["application/json"]["schema"]
            jsonschema.validate(given, schema, jsonschema.Draft202012Validator)
            told = await http.post("/operations/take?consistency=strong", given)
            expected = [7, "ü", False, 0.5, {"$bytes": "AAE="}, [["a", 1]], {"x": None}, "red"]
            assert told.body["value"] == expected
            told = await http.post("/operations/count", {"things": [1, {"a": 2}]})
            assert told.body["value"] == 2
            told = await http.post("/operations/untyped", {"thing": [None]})
            assert told.body["value"] == [None]

    run(story())


def test_schemathesis_finds_no_server_error(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, datatype="tests.http.odd_types:ODD", limits=QUICK) as http:
            process = await asyncio.create_subprocess_exec(
                SCHEMATHESIS,
                "--no-color",
                "run",
                http.url("/openapi.json"),
                *("--phases", "examples,coverage,fuzzing"),
                *("--checks", ",".join(CHECKS)),
                *("--max-examples", "5", "--generation-deterministic"),
                *("--request-timeout", "10"),
                cwd=tmp_path,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            output, _ = await process.communicate()
            assert process.returncode == 0, output.decode()
            assert http.cluster.servers[0].status()["executions"] > 0
            assert http.gateways[0].api.responses_by_status[500] == 0

    run(story())
