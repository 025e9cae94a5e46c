"""TLS contexts and access tokens.

Replicas present certificates of one authority to each other. Clients verify a replica's
certificate and present a token. The token decides whether a client may call operations, and
whether it may administer the cluster. A failed handshake counts under OpenSSL's explanation.

The certificate of a replica must belong to the number that its hello claims:

- A certificate with names `creek://CLUSTER/replica/NUMBER` belongs to these replicas only.
- A certificate without such a name, of another authority than `creek certs`, belongs to the
  replicas whose hosts it names. Replicas that share a host, or a certificate, can then use each
  other's number.
"""

import hmac
import ipaddress
import re
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from creekdb.errors import UsageError
from creekdb.server.runtime.config import SecurityConfig
from creekdb.wire.counters import ServerCounter

HANDSHAKE_ROUNDS: Final = 3
"""Rounds after which a handshake is complete in every version of TLS."""


def server_context(
    security: SecurityConfig, mutual: bool, count: Callable[[str], None]
) -> ssl.SSLContext:
    """Return the context of incoming connections. If `mutual`, they must present a certificate."""
    context = _load_context(ssl.Purpose.CLIENT_AUTH, security)
    if mutual:
        context.verify_mode = ssl.CERT_REQUIRED
    context.sslobject_class = _counting_ssl_object(count)
    return context


def client_context(security: SecurityConfig) -> ssl.SSLContext:
    return _load_context(ssl.Purpose.SERVER_AUTH, security)


IDENTITY_SCHEME: Final = "creek://"


def replica_identity(cluster: str, replica: int) -> str:
    """Return the name of a replica in its certificate."""
    return f"{IDENTITY_SCHEME}{quote(cluster, safe='')}/replica/{replica}"


def certificate_problem(
    certificate: Mapping[str, Any], identity: str, host: str | None
) -> str | None:
    """Return why a certificate does not belong to a replica, or None if it does.

    `certificate` is a result of `getpeercert`. `host` is the host of the replica, or None if every
    host is valid.
    """
    names: tuple[tuple[str, str], ...] = certificate.get("subjectAltName", ())
    identities = [
        value for kind, value in names if kind == "URI" and value.startswith(IDENTITY_SCHEME)
    ]
    if identities:
        if identity in identities:
            return None
        return f"the certificate belongs to {', '.join(identities)}, not to {identity}"
    if host is None or any(_matches_host(kind, value, host) for kind, value in names):
        return None
    return f"the certificate names neither {identity} nor the host {host}"


def _matches_host(kind: str, name: str, host: str) -> bool:
    """Return True if a name of a certificate matches a host, as OpenSSL matches a server's."""
    if kind == "IP Address":
        with suppress(ValueError):
            return ipaddress.ip_address(name) == ipaddress.ip_address(host)
        return False
    first, _, domain = name.lower().partition(".")
    if kind != "DNS" or (first == "*" and host.lower().partition(".")[2] != domain):
        return False
    return first == "*" or name.lower() == host.lower()


def certificate_expiry_s(security: SecurityConfig, identity: str = "") -> float:
    """Return the expiry of this replica's certificate, in seconds since 1970.

    Raise `UsageError` if other replicas would reject the certificate. To find out, perform a
    handshake in memory, with the certificate on both sides. `identity` is that of this replica, or
    empty if its number is not assigned yet.
    """
    server = _load_context(ssl.Purpose.CLIENT_AUTH, security)
    server.verify_mode = ssl.CERT_REQUIRED
    client = _load_context(ssl.Purpose.SERVER_AUTH, security)
    client.check_hostname = False  # the host is known only to the other replicas
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    try:
        for side in sides * HANDSHAKE_ROUNDS:
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    except ssl.SSLError as error:
        raise UsageError(
            f"security.certificate {security.certificate} would be rejected by the other replicas: "
            f"{describe_tls_error(error)}"
        ) from error
    certificate = sides[0].getpeercert()
    assert certificate is not None
    problem = certificate_problem(certificate, identity, None) if identity else None
    if problem is not None:
        raise UsageError(
            f"security.certificate {security.certificate} would be rejected by the other replicas: "
            f"{problem}; configure the certificate of this replica"
        )
    return ssl.cert_time_to_seconds(str(certificate["notAfter"]))


def tls_error_counter(error: ssl.SSLError) -> str:
    """Return the counter of a failed handshake. The number of these counters is bounded."""
    if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return ServerCounter.TLS_MISSING
    return "tls_" + re.sub(r"\W+", "_", describe_tls_error(error).lower()).strip("_")


def describe_tls_error(error: ssl.SSLError) -> str:
    """Return OpenSSL's explanation, without the names of hosts and certificates."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message.partition(", certificate is not valid for")[0]
    return (error.reason or type(error).__name__).replace("_", " ").lower()


def _load_context(purpose: ssl.Purpose, security: SecurityConfig) -> ssl.SSLContext:
    for key in ("authority", "certificate", "key"):
        path = Path(getattr(security, key))
        try:
            path.open("rb").close()
        except OSError as error:
            raise UsageError(f"security.{key} {path}: {error.strerror}") from error
    try:
        context = ssl.create_default_context(purpose, cafile=security.authority)
        context.load_cert_chain(security.certificate, security.key)
    except ssl.SSLError as error:
        files = f"{security.authority}, {security.certificate} and {security.key}"
        raise UsageError(f"security: {files} do not match ({error.reason})") from error
    return context


def _counting_ssl_object(count: Callable[[str], None]) -> type[ssl.SSLObject]:
    """Return an SSL class that counts failed handshakes, which asyncio does not report."""

    class Counting(ssl.SSLObject):
        def do_handshake(self) -> Any:
            try:
                return super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise  # the handshake is in progress
            except ssl.SSLError as error:
                count(tls_error_counter(error))
                raise

    return Counting


class AccessTokens:
    """Tokens of the configuration, and the rights that they grant."""

    def __init__(self, security: SecurityConfig) -> None:
        self.replace(security)

    def replace(self, security: SecurityConfig) -> None:
        """Grant the rights of this configuration from now on."""
        self._names = {token.encode(): name for name, token in security.tokens.items()}
        self._admins = frozenset(security.admins)

    @property
    def is_required(self) -> bool:
        return bool(self._names)

    def can_call(self, token: str) -> bool:
        """Return True if `token`, which may be empty, permits calls."""
        return not self._names or self._name_of(token) is not None

    def can_administer(self, token: str) -> bool:
        """Return True if `token` permits membership changes and backups."""
        return not self._admins or self._name_of(token) in self._admins

    def _name_of(self, token: str) -> str | None:
        """Return the name of a token, in a time that does not depend on how much of it matches."""
        candidate = token.encode()
        match = None
        for known, name in self._names.items():
            if hmac.compare_digest(candidate, known):
                match = name
        return match
