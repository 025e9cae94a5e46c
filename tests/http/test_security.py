"""Tokens and TLS over HTTP."""

import ssl
from pathlib import Path

import pytest

from creekdb.errors import BadValue
from creekdb.server.runtime.config import SecurityConfig, ServerConfig
from creekdb.server.security.certificates import issue, new_authority
from creekdb.wire.reject_reason import RejectReason
from tests.http.http_cluster import http_cluster

VALID_TOKEN = {"Authorization": "Bearer s3cret"}


async def test_only_health_and_readiness_are_public(tmp_path: Path) -> None:
    security = SecurityConfig(tokens={"till": "s3cret"})
    async with http_cluster(tmp_path, security=security, url_scheme="http") as http:
        paths = ("/status", "/state", "/metrics", "/openapi.json", "/calls/0.1")
        invalid: tuple[dict[str, str], ...]
        invalid = ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic s3cret"})
        for headers in invalid:
            for path in paths:
                response = await http.get(path, headers=headers)
                assert (response.status, response.problem) == (401, RejectReason.TOKEN), path
                assert response.headers["WWW-Authenticate"] == "Bearer"
            response = await http.post("/operations/open", {"name": "ann"}, headers=headers)
            assert (response.status, response.problem) == (401, RejectReason.TOKEN)
        assert (await http.get("/health")).status == 200
        assert (await http.get("/ready")).status == 200
        status = (await http.get("/status", headers=VALID_TOKEN)).body
        assert status["refused"][RejectReason.TOKEN] == 18
        response = await http.post("/operations/open", {"name": "ann"}, headers=VALID_TOKEN)
        assert response.status == 200


async def test_http_uses_the_tls_certificate_of_the_replica(tmp_path: Path) -> None:
    authority = new_authority("ours", 1)
    pair = issue(authority, "replica", ("127.0.0.1",), 1)
    security = SecurityConfig(
        authority=str(tmp_path / "authority.pem"),
        certificate=str(tmp_path / "certificate.pem"),
        key=str(tmp_path / "key.pem"),
    )
    Path(security.authority).write_bytes(authority.certificate_pem())
    Path(security.certificate).write_bytes(pair.certificate_pem())
    Path(security.key).write_bytes(pair.key_pem())
    async with http_cluster(tmp_path, security=security, url_scheme="https") as http:
        context = ssl.create_default_context(cafile=security.authority)
        response = await http.post("/operations/open", {"name": "ann"}, ssl=context)
        assert response.status == 200


def test_unencrypted_http_for_other_machines_is_rejected() -> None:
    with pytest.raises(BadValue, match=r"0\.0\.0\.0:7300 is reachable from other machines"):
        ServerConfig(members={0: "127.0.0.1:7200"}, http="0.0.0.0:7300")
