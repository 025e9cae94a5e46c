"""Parsing and formatting of addresses."""

import pytest

from creekdb.errors import BadValue
from creekdb.wire.addresses import format_address, parse_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.1:7100", "10.0.0.1", 7100),
        ("shop.example:0", "shop.example", 0),
        ("[::1]:7100", "::1", 7100),
        ("shop.example:65535", "shop.example", 65_535),
        ("[fe80::2%eth0]:7100", "fe80::2%eth0", 7100),
    ],
)
def test_parsing_and_formatting_are_inverse(text: str, host: str, port: int) -> None:
    assert parse_address(text) == (host, port)
    assert format_address(host, port) == text


def test_the_default_host_is_loopback() -> None:
    assert parse_address(":7100") == ("127.0.0.1", 7100)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("here", "HOST:PORT"),
        ("[::1]", "HOST:PORT"),
        ("here:port", "HOST:PORT"),
        ("http://here:80", "HOST:PORT"),
        ("::1", r"\[HOST\]:PORT"),
        ("fe80::2", r"\[HOST\]:PORT"),
    ],
)
def test_malformed_addresses_are_rejected(text: str, expected: str) -> None:
    with pytest.raises(BadValue, match=f"is not an address: write {expected}$"):
        parse_address(text)


@pytest.mark.parametrize("port", ["65536", "70000", "1" * 5000])
def test_the_error_for_a_large_port_names_the_greatest(port: str) -> None:
    with pytest.raises(BadValue, match=r"is not an address: a port is at most 65535$"):
        parse_address(f"here:{port}")


@pytest.mark.parametrize("host", ["a..b", ".b", "x" * 64, "a\0b", "[::1%a..b]", "\u2024b"])
def test_a_host_that_no_system_can_look_up_is_rejected(host: str) -> None:
    with pytest.raises(BadValue, match=r"is not the name of a host$"):
        parse_address(f"{host}:7100")
    assert parse_address("shop.example.:7100") == ("shop.example.", 7100)
