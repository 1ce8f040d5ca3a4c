"""What a secured federation needs: a certificate authority, a server's certificate, nodes' keys."""

import subprocess
from pathlib import Path

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp384r1", "-noenc")
SERVER = "subjectAltName=DNS:localhost,IP:127.0.0.1"


def write_certificates(folder: Path) -> None:
    """Write ``ca.crt``, ``server.pem`` and ``server.key``, for a server on this machine."""
    days = ("-days", "2")
    authority = ("-subj", "/CN=hotview test authority")
    authority += ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    _run(folder, "req", "-x509", *CURVE, *days, *authority, "-keyout", "ca.key", "-out", "ca.crt")
    server = ("-subj", "/CN=localhost", "-addext", SERVER)
    _run(folder, "req", *CURVE, *server, "-keyout", "server.key", "-out", "server.csr")
    signing = ("-CA", "ca.crt", "-CAkey", "ca.key", *days, "-copy_extensions", "copy")
    _run(folder, "x509", "-req", "-in", "server.csr", *signing, "-out", "server.pem")


def write_node_key(folder: Path, name: str) -> None:
    """Write ``NAME`` and ``NAME.pub``."""
    how = ("-q", "-t", "ecdsa", "-b", "384", "-N", "", "-C", name, "-f", name)
    subprocess.run(["ssh-keygen", *how], cwd=folder, check=True, stdin=subprocess.DEVNULL)


def _run(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
