"""Writes the two files that docker-compose.yml reads: generated passwords, and settings to edit.

    python3 docker/make_env.py .env hitherto.env

An existing file is never changed: the passwords in it are those the database was made with.
Runs on a bare Python, before anything is installed.
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

PASSWORDS = (
    "POSTGRES_PASSWORD",
    "HITHERTO_RETRIEVAL_PASSWORD",
    "HITHERTO_EXTRACTION_PASSWORD",
    "REPLICATION_PASSWORD",
    "GRAFANA_PASSWORD",
)

IMAGES = """
# Images by digest, so that they never change unasked: docs/docker.md says how to find digests.
#PYTHON_IMAGE=python:3.12-slim@sha256:
#POSTGRES_IMAGE=pgvector/pgvector:pg17@sha256:
#PROMETHEUS_IMAGE=prom/prometheus:v3.5.0@sha256:
#GRAFANA_IMAGE=grafana/grafana:12.1.0@sha256:
#CITUS_IMAGE=citusdata/citus:13.0.3@sha256:

# The database over two workers with Citus, from the first start on: docs/docker.md.
#COMPOSE_PROFILES=citus
#POSTGRES_IMAGE=hitherto-citus-worker-1
#CITUS_WORKERS=citus-worker-1 citus-worker-2
"""

SETTINGS = """\
# Settings of both services in docker-compose.yml: one NAME=value a line, without quotes; a $ in a
# value is written $$. Every setting of docs/configuration.md can stand here, and OpenTelemetry's,
# except DATABASE_URL, HITHERTO_SECRET_FILE and the passwords.
# Apply a change with `docker compose up --wait`.

# A language model and an embedder; without them, the offline rules and the offline embedder run.
#OPENAI_API_KEY=
#OPENAI_BASE_URL=
#MEMORY_EXTRACTION_MODEL=
#EMBEDDING_MODEL=
#EMBEDDING_DIMENSIONS=

# TLS, with files in docker/tls.
#HITHERTO_TLS_CERTIFICATE_FILE=/etc/hitherto/tls/certificate.pem
#HITHERTO_TLS_KEY_FILE=/etc/hitherto/tls/key.pem
# What the health check trusts: the authority that signed the certificate.
#HITHERTO_TLS_CA_FILE=/etc/hitherto/tls/ca.pem

# Reads from the replica (docker compose --profile replica).
#HITHERTO_READ_DATABASE_URL=postgresql://postgres-replica/hitherto

# The key-encryption key for people with encryption on: 64 hexadecimal digits, as
# `openssl rand -hex 32` prints them.
#HITHERTO_ENCRYPTION_KEY=

# Traces.
#OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4317

#HITHERTO_LOG_LEVEL=INFO
"""


def write_new(path: Path, text: str) -> bool:
    """Write `path` (mode 0600) unless it exists; True if it was written."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return True


def passwords() -> str:
    """A line for each password, newly generated, and places for digests."""
    # Letters and digits only: passwords become part of a URL.
    return "".join(f"{name}={secrets.token_hex(24)}\n" for name in PASSWORDS) + IMAGES


def main() -> None:
    """Entry point; see the module docstring."""
    if len(sys.argv) != 3:
        raise SystemExit("usage: python3 docker/make_env.py PASSWORD_FILE SETTINGS_FILE")
    for path, text in zip(map(Path, sys.argv[1:]), (passwords(), SETTINGS), strict=True):
        print(f"wrote {path}" if write_new(path, text) else f"{path} exists and was left as it is")
    print("now: docker compose up --build --wait")


if __name__ == "__main__":
    main()
