"""Network addresses written as `host:port`."""

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from creekdb.errors import BadValue

PORT_MAX: Final = 65_535


def parse_address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT. A host that contains colons, as in IPv6, is written in brackets."""
    host, colon, port = text.rpartition(":")
    host = host.strip("[]")
    if not colon or "/" in host or not port.isdecimal():
        raise BadValue(f"'{text}' is not an address: write HOST:PORT")
    if len(port) > 5 or int(port) > PORT_MAX:
        raise BadValue(f"'{text}' is not an address: a port is at most {PORT_MAX}")
    if ":" in host and _parse_ip(host) is None:
        raise BadValue(f"'{text}' is not an address: write [HOST]:PORT")
    if not _can_be_looked_up(host):
        raise BadValue(f"'{text}' is not an address: '{host}' is not the name of a host")
    return host or "127.0.0.1", int(port)


def format_address(host: str, port: int) -> str:
    """Return the address as `parse_address` reads it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    ip = _parse_ip(host)
    return host == "localhost" or (ip is not None and ip.is_loopback)


def _can_be_looked_up(host: str) -> bool:
    """Return True if the system can look up a host. For other texts, a lookup or the start of TLS
    raises `ValueError` instead of `OSError`."""
    try:
        encoded = host.encode("idna")
    except UnicodeError:
        return False
    return not encoded.startswith(b".") and b"\0" not in encoded


def _parse_ip(host: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address, or None for a host name."""
    try:
        return ip_address(host)
    except ValueError:
        return None
