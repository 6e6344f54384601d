"""Checks whether a server is serving; for health checks of containers and scripts.

    python -m hitherto_shared.rpc.probe 127.0.0.1:50051

Exit code 0 if it is, 1 if it is not or does not answer in time. In the environment of a service
with TLS, the probe uses TLS: it trusts the service's own certificate, or HITHERTO_TLS_CA_FILE. If
the service demands client certificates, it presents HITHERTO_TLS_CLIENT_CERTIFICATE_FILE.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, cast

import grpc
from cryptography import x509
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hitherto_shared.command_output import CommandParser

# The probe calls the given address; an internet proxy would answer for itself.
_OPTIONS: list[tuple[str, int | str]] = [("grpc.enable_http_proxy", 0)]


Tls = tuple[grpc.ChannelCredentials, str]
"""How to reach a server with TLS, and a name in its certificate; empty if that is the address."""


def tls_of_environment() -> Tls | None:
    """TLS as the service in this environment serves it; None if it serves without.

    Raises:
        OSError: A file cannot be read.
        ValueError: The certificate is unusable.
    """
    served = os.environ.get("HITHERTO_TLS_CERTIFICATE_FILE")
    if not served:
        return None
    chain = Path(served).read_bytes()
    authority, key, certificate = (
        Path(named).read_bytes() if (named := os.environ.get(variable)) else None
        for variable in (
            "HITHERTO_TLS_CA_FILE",
            "HITHERTO_TLS_CLIENT_KEY_FILE",
            "HITHERTO_TLS_CLIENT_CERTIFICATE_FILE",
        )
    )
    credentials = grpc.ssl_channel_credentials(authority or chain, key, certificate)
    return credentials, _first_name(chain)


def _first_name(chain: bytes) -> str:
    """A DNS name that the first certificate is valid for; empty if it names none."""
    certificate = x509.load_pem_x509_certificates(chain)[0]
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ""
    found = names.get_values_for_type(x509.DNSName)
    # A wildcard is valid for one label in its place.
    return found[0].replace("*", "probe", 1) if found else ""


def probe(address: str, *, timeout: float = 3.0, tls: Tls | None = None) -> str | None:
    """Why the server at `address` (host:port) is not serving, or None if it is.

    `timeout` covers connecting and the check together. `tls` None uses no TLS.
    """
    options = list(_OPTIONS)
    if tls is None:
        channel = grpc.insecure_channel(address, options=options)
    else:
        credentials, server_name = tls
        if server_name:
            options.append(("grpc.ssl_target_name_override", server_name))
        channel = grpc.secure_channel(address, credentials, options=options)
    with channel:
        try:
            check: Any = health_pb2_grpc.HealthStub(channel)  # its methods have no types
            reply = check.Check(
                health_pb2.HealthCheckRequest(), timeout=timeout, wait_for_ready=True
            )
        except grpc.RpcError as error:
            # The error of a call is also its `grpc.Call`, which the stubs cannot express.
            return f"{address} does not answer ({cast(Any, error).code().name})"
    if reply.status == health_pb2.HealthCheckResponse.SERVING:
        return None
    status = health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status)
    return f"{address} answers {status}"


def main() -> None:
    """Entry point; see the module docstring."""
    parser = CommandParser(prog="hitherto-probe", description="Ask a server whether it is serving.")
    parser.add_argument("address", help="host:port")
    parser.add_argument("--timeout", type=float, default=3.0, help="seconds (default 3)")
    arguments = parser.parse_args()
    try:
        tls = tls_of_environment()
    except (OSError, ValueError) as error:
        parser.exit(1, f"hitherto-probe: the certificate cannot be used: {error}\n")
    problem = probe(arguments.address, timeout=arguments.timeout, tls=tls)
    if problem is not None:
        print(problem, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
