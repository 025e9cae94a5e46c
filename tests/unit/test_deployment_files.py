"""Files in `deploy/`. `make release` also lints the container file with hadolint."""

import configparser
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from creekdb.http.app import PUBLIC_PATHS
from creekdb.server.runtime.config import read_config

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
METRIC = re.compile(r"\bcreek_[a-z_]+")
HISTOGRAM_SUFFIXES = ("_bucket", "_count", "_sum")


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the container file, with their arguments."""
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split()[0], line.partition(" ")[2]) for line in lines]


def test_the_image_has_a_build_stage_and_an_unprivileged_user() -> None:
    names = [name for name, _ in instructions()]
    values = dict(instructions())

    assert names.count("FROM") == 2
    assert values["USER"] == "10001"
    assert values["STOPSIGNAL"] == "SIGTERM"
    (address,) = re.findall(r"http://127.0.0.1:7300(/[a-z]+)'", values["HEALTHCHECK"])
    assert address in PUBLIC_PATHS
    assert "apt-get" not in "".join(names[names.index("FROM", 1) :])


SERVICE: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["image", "build", "command", "configs", "environment", "ports", "volumes"],
    "properties": {
        "image": {"type": "string", "pattern": r"^creek:"},
        "build": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"context": {"const": ".."}, "dockerfile": {"type": "string"}},
        },
        "command": {"type": "array", "items": {"type": "string"}},
        "configs": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["source", "target"],
                "properties": {"source": {"const": "creek"}, "target": {"type": "string"}},
            },
        },
        "environment": {"type": "object", "additionalProperties": {"type": "string"}},
        "ports": {
            "type": "array",
            "items": {"type": "string", "pattern": r"^127\.0\.0\.1:\d+:\d+(/udp)?$"},
        },
        "restart": {"enum": ["no", "always", "on-failure", "unless-stopped"]},
        "stop_grace_period": {"type": "string", "pattern": r"^\d+s$"},
        "ulimits": {"type": "object", "additionalProperties": {"type": "integer"}},
        "volumes": {"type": "array", "items": {"type": "string", "pattern": r"^[\w-]+:/data$"}},
    },
}
"""The part of the Compose Specification that the file uses. A misspelled key is not in it."""
COMPOSE: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "services", "configs", "volumes"],
    "patternProperties": {"^x-": {}},
    "properties": {
        "name": {"type": "string"},
        "services": {"type": "object", "additionalProperties": SERVICE},
        "configs": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "properties": {"content": {"type": "string"}},
            },
        },
        "volumes": {"type": "object", "additionalProperties": {"type": "null"}},
    },
}


def test_the_compose_file_has_the_keys_and_types_of_its_specification() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    jsonschema.validate(compose, COMPOSE)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {each["image"] for each in compose["services"].values()} == {f"creek:{version}"}


def test_each_service_of_the_compose_file_is_a_member_with_its_own_data(tmp_path: Path) -> None:
    compose: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    path = tmp_path / "creek.toml"
    path.write_text(compose["configs"]["creek"]["content"])
    volumes = set()
    for number, (name, service) in enumerate(compose["services"].items()):
        config = read_config(path, {}, {**service["environment"], "CREEK_DATA": "/data"})
        assert config.replica == number
        assert config.members[number] == f"{name}:7200"
        (volume,) = service["volumes"]
        volumes.add(volume.partition(":")[0])
        build = service["build"]
        assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()
    assert volumes == set(compose["volumes"])
    assert len(volumes) == len(config.members)


def test_the_unit_on_the_page_is_the_one_in_the_repository() -> None:
    text = (DEPLOY / "systemd" / "creek@.service").read_text()
    unit = configparser.ConfigParser(strict=False)
    unit.read_string(text)

    assert unit["Service"]["Type"] == "notify"
    assert int(unit["Service"]["WatchdogSec"]) > 0
    assert text in (ROOT / "docs" / "deploy.md").read_text()


def test_the_dashboard_shows_only_exported_metrics() -> None:
    """`tests/http/test_doc_examples.py` compares the documented metrics with the exported ones."""
    exported = set(METRIC.findall((ROOT / "docs" / "metrics.md").read_text()))
    dashboard = json.loads((DEPLOY / "grafana" / "creek.json").read_text())
    shown = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in METRIC.findall(target["expr"])
    }

    assert shown
    assert {without_suffix(name) for name in shown} <= {without_suffix(each) for each in exported}


def without_suffix(name: str) -> str:
    return next(
        (name.removesuffix(each) for each in HISTOGRAM_SUFFIXES if name.endswith(each)), name
    )
