"""Certificates that a trial authority issues."""

from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from creekdb.errors import UsageError
from creekdb.server.security.certificates import (
    CertificatePair,
    issue,
    new_authority,
    read_pair,
    renew,
)


def host_names(pair: CertificatePair) -> set[str]:
    extensions = pair.certificate.extensions
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(each.value) for each in names}


def test_only_the_authority_can_sign_certificates() -> None:
    authority = new_authority("trial", 10)
    issued = issue(authority, "replica 0", ["db.example"], 5)

    for pair, signs in ((authority, True), (issued, False)):
        extensions = pair.certificate.extensions
        assert extensions.get_extension_for_class(x509.BasicConstraints).value.ca is signs
        assert extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign is signs
    issued.certificate.verify_directly_issued_by(authority.certificate)
    lifetime = issued.certificate.not_valid_after_utc - issued.certificate.not_valid_before_utc
    assert lifetime == timedelta(days=5)


def test_a_loopback_host_adds_all_names_of_the_machine() -> None:
    authority = new_authority("trial", 10)

    assert host_names(issue(authority, "a", ["db.example"], 5)) == {"db.example"}
    local = host_names(issue(authority, "b", ["localhost", "db.example"], 5))
    assert local == {"127.0.0.1", "localhost", "::1", "db.example"}


def test_a_renewed_certificate_has_the_same_hosts_and_another_key() -> None:
    authority = new_authority("trial", 10)
    first = issue(authority, "replica 0", ["db.example", "10.0.0.1"], 5)
    second = renew(authority, first.certificate, 5, "creek:trial/0")

    assert host_names(second) == {*host_names(first), "creek:trial/0"}
    assert second.certificate.subject == first.certificate.subject
    assert second.key.public_key() != first.key.public_key()


def test_a_pair_is_read_back_and_must_match(tmp_path: Path) -> None:
    authority, other = new_authority("trial", 10), new_authority("other", 10)
    (tmp_path / "ca.pem").write_bytes(authority.certificate_pem())
    (tmp_path / "ca.key").write_bytes(authority.key_pem())
    (tmp_path / "other.key").write_bytes(other.key_pem())

    assert read_pair(tmp_path / "ca.pem", tmp_path / "ca.key")[0] == authority.certificate
    with pytest.raises(UsageError, match="is not the elliptic-curve key of"):
        read_pair(tmp_path / "ca.pem", tmp_path / "other.key")
    with pytest.raises(UsageError, match="are not a PEM certificate and its key"):
        read_pair(tmp_path / "ca.key", tmp_path / "ca.pem")
