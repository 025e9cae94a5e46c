"""Control of the clusters that `creek up` of this user runs, by other commands.

`creek up` writes a file with the address and the secret of its control endpoint. Only its user can
read the file. The name of the file is the client port of replica 0.
"""

import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import msgspec

from creekdb.errors import UsageError
from creekdb.wire.addresses import parse_address
from creekdb.wire.dev_control import SECRET_HEADER

REQUEST_TIMEOUT_S = 10.0
DEFAULT_PORT: Final = 7100
"""Client port of replica 0 by default."""
REPLICAS_MAX: Final = 15
"""Upper bound for the replicas of `creek up`."""


class ControlFile(msgspec.Struct, frozen=True):
    """Access to the control endpoint of one cluster."""

    control: str
    """Base URL of the endpoint."""
    secret: str
    origin: str
    """URL of a page of the cluster, from which the endpoint accepts requests."""
    replicas: int
    """Number of replicas."""

    def request(self, action: str, **body: Any) -> None:
        """Send a request to the endpoint. Raise `UsageError` if it is rejected."""
        request = urllib.request.Request(
            f"{self.control}/{action}",
            msgspec.json.encode(body),
            {
                "Content-Type": "application/json",
                "Origin": self.origin,
                SECRET_HEADER: self.secret,
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT_S):
                pass
        except urllib.error.HTTPError as error:
            with error:
                detail = msgspec.json.decode(error.read()).get("detail", error.reason)
            raise UsageError(str(detail)) from error
        except OSError as error:
            raise UsageError(
                f"the cluster of 'creek up' does not respond at {self.control}: {error}; "
                "start it again"
            ) from error

    def all_links(self) -> list[tuple[int, int]]:
        """Return all links between replicas."""
        return list(combinations(range(self.replicas), 2))


def control_path(port: int, base: Path | None = None) -> Path:
    """Return the path of the file for the cluster with this port."""
    runtime = base or Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    return runtime / f"creek-{os.getuid()}" / f"{port}.json"


@contextmanager
def published_control(path: Path, control: ControlFile) -> Iterator[None]:
    """Keep the file in place while the cluster runs."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.parent.stat().st_uid != os.getuid():
        raise UsageError(f"{path.parent} belongs to another user; remove it or set XDG_RUNTIME_DIR")
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(control))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def find_control(port: int | None, base: Path | None = None) -> ControlFile:
    """Return the access to the running cluster of which a replica has this client port.

    Without a port, use that of the first address in `CREEK_AT`, or the default of `creek up`.
    """
    if port is None:
        address = os.environ.get("CREEK_AT", "").replace(",", " ").split()
        port = parse_address(address[0])[1] if address else DEFAULT_PORT
    path = control_path(port, base)
    for other in () if path.exists() else path.parent.glob("*.json"):
        first = int(other.stem) if other.stem.isdecimal() else port
        if first < port < first + REPLICAS_MAX and port < first + read_control(other).replicas:
            path = other
    return read_control(path)


def read_control(path: Path) -> ControlFile:
    """Return the access to a running cluster."""
    try:
        if path.stat().st_uid != os.getuid():
            raise UsageError(f"{path} belongs to another user; use a cluster of your own")
        return msgspec.json.decode(path.read_bytes(), type=ControlFile)
    except FileNotFoundError as error:
        port = path.stem
        raise UsageError(
            f"no cluster of 'creek up' runs at port {port}; start one, or set its port with --port"
        ) from error
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is damaged: {error}; start 'creek up' again") from error
