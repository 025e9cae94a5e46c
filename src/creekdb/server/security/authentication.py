"""Who may connect, and how it is encrypted.

Replicas show each other certificates of one authority. Clients see a replica's certificate, and
show a token. A handshake that fails is counted under what OpenSSL says of it.

Who may call, and who may do what concerns the whole cluster: by token.
"""

import hmac
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from creekdb.errors import UsageError
from creekdb.server.runtime.config import SecurityConfig

NO_TLS_FROM_PEER: Final = "tls: not spoken by the other end"
"""What is counted where one side encrypts and the other does not."""
HANDSHAKE_ROUNDS: Final = 3
"""After which both sides have said all, in every version of TLS."""


def server_context(
    security: SecurityConfig, mutual: bool, count: Callable[[str], None]
) -> ssl.SSLContext:
    """For those who dial us; `mutual`: they show a certificate as well."""
    context = _load_context(ssl.Purpose.CLIENT_AUTH, security)
    if mutual:
        context.verify_mode = ssl.CERT_REQUIRED
    context.sslobject_class = _counting_ssl_object(count)
    return context


def client_context(security: SecurityConfig) -> ssl.SSLContext:
    return _load_context(ssl.Purpose.SERVER_AUTH, security)


def certificate_expiry_s(security: SecurityConfig) -> float:
    """When our certificate expires, in seconds since 1970. Raises `UsageError` if other replicas
    would not take it: it is shown to ourselves as it will be to them, from both sides."""
    answers = _load_context(ssl.Purpose.CLIENT_AUTH, security)
    answers.verify_mode = ssl.CERT_REQUIRED
    dials = _load_context(ssl.Purpose.SERVER_AUTH, security)
    dials.check_hostname = False  # others know where they find us
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = dials.wrap_bio(back, there), answers.wrap_bio(there, back, server_side=True)
    try:
        for side in sides * HANDSHAKE_ROUNDS:
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    except ssl.SSLError as error:
        said = describe_tls_error(error).removeprefix("tls: ")
        raise UsageError(
            f"security.certificate {security.certificate} would be refused by the other replicas: "
            f"{said}"
        ) from error
    shown = sides[0].getpeercert()
    assert shown is not None
    return ssl.cert_time_to_seconds(str(shown["notAfter"]))


def describe_tls_error(error: ssl.SSLError) -> str:
    """In few words, and of these there are not many."""
    if isinstance(error, ssl.SSLCertVerificationError):
        said = error.verify_message.partition(", certificate is not valid for")[0]
    elif error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return NO_TLS_FROM_PEER
    else:
        said = (error.reason or type(error).__name__).replace("_", " ").lower()
    return f"tls: {said}"


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
        raise UsageError(f"security: {files} do not go together ({error.reason})") from error
    return context


def _counting_ssl_object(count: Callable[[str], None]) -> type[ssl.SSLObject]:
    """What asyncio keeps to itself: that a handshake failed."""

    class Counting(ssl.SSLObject):
        def do_handshake(self) -> Any:
            try:
                return super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise  # it is under way
            except ssl.SSLError as error:
                count(describe_tls_error(error))
                raise

    return Counting


class AccessTokens:
    def __init__(self, security: SecurityConfig) -> None:
        self._names = {token.encode(): name for name, token in security.tokens.items()}
        self._admins = frozenset(security.admins)

    @property
    def is_required(self) -> bool:
        return bool(self._names)

    def can_call(self, token: str) -> bool:
        """May one with this token, or with none, call operations?"""
        return not self._names or self._name_of(token) is not None

    def can_administer(self, token: str) -> bool:
        """And also change the members, and take copies of the state?"""
        return not self._admins or self._name_of(token) in self._admins

    def _name_of(self, token: str) -> str | None:
        """Compared in a time that does not tell how much of it was right."""
        given = token.encode()
        found = None
        for known, name in self._names.items():
            if hmac.compare_digest(given, known):
                found = name
        return found
