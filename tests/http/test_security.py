"""Tokens and TLS, the same as for other clients."""

import ssl
from pathlib import Path

import pytest

from creekdb.errors import BadValue
from creekdb.server.runtime.config import SecurityConfig, ServerConfig
from creekdb.server.security.certificates import issue, new_authority
from tests.http.served import run, served

KNOWN = {"Authorization": "Bearer s3cret"}


def test_without_a_token_one_learns_only_that_it_is_alive(tmp_path: Path) -> None:
    async def story() -> None:
        security = SecurityConfig(tokens={"till": "s3cret"})
        async with served(tmp_path, security=security, scheme_of_http="http") as http:
            paths = ("/status", "/state", "/metrics", "/openapi.json", "/calls/0.1")
            wrong: tuple[dict[str, str], ...]
            wrong = ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic s3cret"})
            for headers in wrong:
                for path in paths:
                    told = await http.get(path, headers=headers)
                    assert (told.status, told.problem) == (401, "token"), path
                    assert told.headers["WWW-Authenticate"] == "Bearer"
                told = await http.post("/operations/open", {"name": "ann"}, headers=headers)
                assert (told.status, told.problem) == (401, "token")
            assert (await http.get("/health")).status == 200
            assert (await http.get("/ready")).status == 200
            assert (await http.get("/status", headers=KNOWN)).body["refused"]["token"] == 18
            told = await http.post("/operations/open", {"name": "ann"}, headers=KNOWN)
            assert told.status == 200

    run(story())


def test_http_is_encrypted_like_everything_else(tmp_path: Path) -> None:
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

    async def story() -> None:
        async with served(tmp_path, security=security, scheme_of_http="https") as http:
            trusting = ssl.create_default_context(cafile=security.authority)
            told = await http.post("/operations/open", {"name": "ann"}, ssl=trusting)
            assert told.status == 200

    run(story())


def test_nobody_speaks_http_to_other_machines_unencrypted() -> None:
    with pytest.raises(BadValue, match=r"0\.0\.0\.0:7300 can be reached from other machines"):
        ServerConfig(members={0: "127.0.0.1:7200"}, http="0.0.0.0:7300")
