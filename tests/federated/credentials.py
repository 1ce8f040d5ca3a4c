"""What a secured federation needs: a certificate authority, a server's certificate, nodes' keys."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)


def write_certificates(folder: Path) -> None:
    """Write ``ca.crt``, ``server.pem`` and ``server.key``, for a server on this machine."""
    authority_key, key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    authority = _named("hotview test authority")
    constraints = x509.BasicConstraints(ca=True, path_length=0)
    signing = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    root = (
        _certificate(authority, authority, authority_key)
        .add_extension(constraints, critical=True)
        .add_extension(signing, critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    leaf = (
        _certificate(_named("localhost"), authority, key)
        .add_extension(x509.SubjectAlternativeName(here), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    (folder / "ca.crt").write_bytes(root.public_bytes(Encoding.PEM))
    (folder / "server.pem").write_bytes(leaf.public_bytes(Encoding.PEM))
    form = (Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    _write_secret(folder / "server.key", key.private_bytes(*form))


def write_node_key(folder: Path, name: str) -> None:
    """Write ``NAME`` and ``NAME.pub``, as ``ssh-keygen -t ecdsa -b 384 -f NAME`` does."""
    key = ec.generate_private_key(ec.SECP384R1())
    form = (Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    _write_secret(folder / name, key.private_bytes(*form))
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    (folder / f"{name}.pub").write_bytes(public + b"\n")


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey):
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)  # clocks may differ
        .not_valid_after(now + DAY)
    )


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _write_secret(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)
