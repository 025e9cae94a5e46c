"""Addresses as people write them, and as they are told."""

import pytest

from creekdb.errors import BadValue
from creekdb.wire.addresses import format_address, parse_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.1:7100", "10.0.0.1", 7100),
        ("shop.example:0", "shop.example", 0),
        ("[::1]:7100", "::1", 7100),
        ("[fe80::2%eth0]:7100", "fe80::2%eth0", 7100),
    ],
)
def test_what_is_read_is_written_again(text: str, host: str, port: int) -> None:
    assert parse_address(text) == (host, port)
    assert format_address(host, port) == text


def test_without_a_host_it_is_this_machine() -> None:
    assert parse_address(":7100") == ("127.0.0.1", 7100)


@pytest.mark.parametrize(
    ("text", "write"),
    [
        ("here", "HOST:PORT"),
        ("[::1]", "HOST:PORT"),
        ("here:port", "HOST:PORT"),
        ("here:70000", "HOST:PORT"),
        ("http://here:80", "HOST:PORT"),
        ("::1", r"\[HOST\]:PORT"),
        ("fe80::2", r"\[HOST\]:PORT"),
    ],
)
def test_what_is_no_address_is_refused(text: str, write: str) -> None:
    with pytest.raises(BadValue, match=f"is not an address: write {write}$"):
        parse_address(text)
