"""Checks whether a server is serving; for health checks of containers and scripts.

    python -m hitherto_shared.rpc.probe 127.0.0.1:50051

Exit code 0 if it is, 1 if it is not or does not answer in time. In the environment of a service
with TLS, the probe uses TLS: it trusts the service's own certificate, or HITHERTO_TLS_CA_FILE. If
the service demands client certificates, it presents HITHERTO_TLS_CLIENT_CERTIFICATE_FILE.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import grpc
from cryptography import x509
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hitherto_shared.command_output import CommandParser

# The probe calls the given address; an internet proxy would answer for itself.
_OPTIONS: list[tuple[str, int | str]] = [("grpc.enable_http_proxy", 0)]


@dataclass(frozen=True, slots=True)
class ProbeTls:
    """How to reach a server with TLS.

    Attributes:
        ca: What must have signed the server's certificate, or the certificate itself (PEM).
        server_name: Name in the server's certificate; empty if it is the address.
        certificate: Our own certificate chain (PEM), if the server demands one.
        key: Its private key (PEM).
    """

    ca: bytes
    server_name: str = ""
    certificate: bytes | None = None
    key: bytes | None = None

    @classmethod
    def of_environment(cls) -> Self | None:
        """TLS as the service in this environment serves it; None if it serves without.

        Raises:
            OSError: A file cannot be read.
            ValueError: The certificate is unusable.
        """
        served = os.environ.get("HITHERTO_TLS_CERTIFICATE_FILE")
        if not served:
            return None
        chain = Path(served).read_bytes()
        ca = os.environ.get("HITHERTO_TLS_CA_FILE")
        own = os.environ.get("HITHERTO_TLS_CLIENT_CERTIFICATE_FILE")
        key = os.environ.get("HITHERTO_TLS_CLIENT_KEY_FILE")
        return cls(
            Path(ca).read_bytes() if ca else chain,
            _first_name(chain),
            Path(own).read_bytes() if own else None,
            Path(key).read_bytes() if key else None,
        )


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


def probe(address: str, *, timeout: float = 3.0, tls: ProbeTls | None = None) -> str | None:
    """Why the server at `address` (host:port) is not serving, or None if it is.

    `timeout` covers connecting and the check together. `tls` None uses no TLS.
    """
    options = list(_OPTIONS)
    if tls is None:
        channel = grpc.insecure_channel(address, options=options)
    else:
        if tls.server_name:
            options.append(("grpc.ssl_target_name_override", tls.server_name))
        credentials = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.certificate)
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
        tls = ProbeTls.of_environment()
    except (OSError, ValueError) as error:
        parser.exit(1, f"hitherto-probe: the certificate cannot be used: {error}\n")
    problem = probe(arguments.address, timeout=arguments.timeout, tls=tls)
    if problem is not None:
        print(problem, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
