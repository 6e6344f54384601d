"""Certificates of authorities that a test makes up."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, as files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates.

    Args:
        folder: Where the files go.
        name: What it is called.
        hours: How long its own certificate is good.
    """

    def __init__(self, folder: Path, name: str, *, hours: float = 1) -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._private = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(self._name, self._private, hours=hours, ca=True)
        self.file = self._written(f"{name}.pem", certificate)

    def pair(self, name: str, *, hours: float = 1, host: str = "") -> Pair:
        """A new certificate for this machine, or a host, good for so many hours from now on."""
        private = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, private, hours=hours, ca=False, host=host)
        key = private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return Pair(self._written(f"{name}.pem", certificate), self._written(f"{name}.key", key))

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        *,
        hours: float,
        ca: bool,
        host: str = "",
    ) -> bytes:
        now = datetime.now(UTC)
        address: x509.GeneralName = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        if host:
            address = x509.DNSName(host)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=2))
            .not_valid_after(now + timedelta(hours=hours))
            .add_extension(x509.SubjectAlternativeName([address]), critical=False)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .sign(self._private, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM)

    def _written(self, name: str, content: bytes) -> Path:
        file = self._folder / name
        file.write_bytes(content)
        file.chmod(0o600)
        return file
