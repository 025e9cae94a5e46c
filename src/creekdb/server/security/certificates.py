"""Certificates for trials: an authority and the certificates that it issues.

Deployments with an existing authority do not need this module. The files are ordinary PEM.
"""

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from creekdb.errors import UsageError
from creekdb.wire.addresses import is_loopback

LOOPBACK_HOSTS: Final = ("127.0.0.1", "localhost", "::1")
CLOCK_SKEW: Final = timedelta(hours=1)
"""Time by which a certificate is valid before its creation, because clocks differ."""


class CertificatePair(NamedTuple):
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )


def read_pair(certificate: Path, key: Path) -> CertificatePair:
    """Read a certificate and its key from PEM files. Raise `UsageError` if they are not valid."""
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        private_key = serialization.load_pem_private_key(key.read_bytes(), None)
    except OSError as error:
        raise UsageError(f"cannot read {error.filename}: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"{certificate} and {key} are not a PEM certificate and its key"
        ) from error
    if (
        not isinstance(private_key, ec.EllipticCurvePrivateKey)
        or private_key.public_key() != found.public_key()
    ):
        raise UsageError(f"{key} is not the elliptic-curve key of {certificate}")
    return CertificatePair(found, private_key)


def renew(
    authority: CertificatePair, certificate: x509.Certificate, days: int, identity: str
) -> CertificatePair:
    """Issue a certificate with the same hosts and name, a new key, and this identity."""
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    hosts = [
        str(each.value) for each in names if not isinstance(each, x509.UniformResourceIdentifier)
    ]
    return issue(authority, _common_name(certificate), hosts, days, identity=identity)


def new_authority(name: str, days: int) -> CertificatePair:
    return _certify(name, None, days, datetime.now(UTC) - CLOCK_SKEW, ())


def issue(
    authority: CertificatePair,
    name: str,
    hosts: Iterable[str],
    days: int,
    since: datetime | None = None,
    identity: str = "",
) -> CertificatePair:
    """Issue a certificate for `hosts`. A loopback host adds all names of this machine.

    With an `identity`, the certificate belongs only to that replica.
    """
    names = [_general_name(host) for host in _with_loopback_names(hosts)]
    if identity:
        names.append(x509.UniformResourceIdentifier(identity))
    extensions = (
        x509.ExtendedKeyUsage((ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)),
        x509.SubjectAlternativeName(names),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
    )
    return _certify(name, authority, days, since or datetime.now(UTC) - CLOCK_SKEW, extensions)


def _certify(
    name: str,
    authority: CertificatePair | None,
    days: int,
    since: datetime,
    extensions: Iterable[x509.ExtensionType],
) -> CertificatePair:
    """Create a key and its certificate, signed by the authority, or a new authority if None."""
    key, is_authority = ec.generate_private_key(ec.SECP256R1()), authority is None
    issuer = name if authority is None else _common_name(authority.certificate)
    constraints = x509.BasicConstraints(is_authority, path_length=0 if is_authority else None)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_x509_name(name))
        .issuer_name(_x509_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(since + timedelta(days=days))
        .add_extension(constraints, critical=True)
        .add_extension(_key_usage(signs=is_authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    signing_key = key if authority is None else authority.key
    return CertificatePair(builder.sign(signing_key, hashes.SHA256()), key)


def _common_name(certificate: x509.Certificate) -> str:
    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def _x509_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _with_loopback_names(hosts: Iterable[str]) -> Iterable[str]:
    """Return `hosts`. If one is a loopback name, add the others."""
    names = list(hosts)
    if any(map(is_loopback, names)):
        names += LOOPBACK_HOSTS
    return dict.fromkeys(names)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
