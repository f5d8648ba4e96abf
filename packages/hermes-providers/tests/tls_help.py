"""The certificates of the tests: an authority of their own, and a server that it vouches for."""

from __future__ import annotations

import ssl
from pathlib import Path

FILES = Path(__file__).parent / "tls"
AUTHORITY = str(FILES / "authority.pem")
CERTIFICATE = (str(FILES / "server.pem"), str(FILES / "server-key.pem"))


def server_tls(*, wants_certificate: bool = False, protocols: tuple[str, ...] = ()) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*CERTIFICATE)
    if wants_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(AUTHORITY)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context
