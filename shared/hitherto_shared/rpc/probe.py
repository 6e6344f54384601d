"""Checks whether a server is serving; for health checks of containers and scripts.

    python -m hitherto_shared.rpc.probe 127.0.0.1:50051

Exit code 0 if it is, 1 if it is not or does not answer in time.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, cast

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

# The probe calls the given address; an internet proxy would answer for itself.
_OPTIONS: list[tuple[str, int | str]] = [("grpc.enable_http_proxy", 0)]


def probe(
    address: str, *, timeout: float = 3.0, ca: bytes | None = None, server_name: str = ""
) -> str | None:
    """Why the server at `address` (host:port) is not serving, or None if it is.

    Args:
        address: The server's address.
        timeout: Seconds for connecting and the check together.
        ca: Certificate (PEM) that signed the certificate of a server with TLS; None uses no TLS.
        server_name: Name in the server's certificate, where it differs from the address.
    """
    options = list(_OPTIONS)
    if server_name:
        options.append(("grpc.ssl_target_name_override", server_name))
    channel = (
        grpc.insecure_channel(address, options=options)
        if ca is None
        else grpc.secure_channel(address, grpc.ssl_channel_credentials(ca), options=options)
    )
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
    parser = argparse.ArgumentParser(
        prog="hitherto-probe", description="Ask a server whether it is serving."
    )
    parser.add_argument("address", help="host:port")
    parser.add_argument("--timeout", type=float, default=3.0, help="seconds (default 3)")
    parser.add_argument("--ca", type=Path, help="certificate of the authority, for TLS")
    parser.add_argument("--server-name", default="", help="name in the server's certificate")
    arguments = parser.parse_args()
    problem = probe(
        arguments.address,
        timeout=arguments.timeout,
        ca=arguments.ca.read_bytes() if arguments.ca else None,
        server_name=arguments.server_name,
    )
    if problem is not None:
        print(problem, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
