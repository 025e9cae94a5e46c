"""Network addresses written as `host:port`."""

import ipaddress

from creekdb.errors import BadValue


def parse_address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT. A host that contains colons, as in IPv6, is written in brackets."""
    host, colon, port = text.rpartition(":")
    host = host.strip("[]")
    if not colon or "/" in host or not port.isdecimal() or int(port) > 65_535:
        raise BadValue(f"'{text}' is not an address: write HOST:PORT")
    if ":" in host and not _is_ipv6(host):
        raise BadValue(f"'{text}' is not an address: write [HOST]:PORT")
    return host or "127.0.0.1", int(port)


def format_address(host: str, port: int) -> str:
    """Return the address as `parse_address` reads it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
