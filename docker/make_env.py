"""Writes the .env file that docker-compose.yml reads: passwords of its own.

    python3 docker/make_env.py .env

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
)


def write_env(path: Path) -> bool:
    """Write `path` (mode 0600) unless it exists; True if it was written."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        # Letters and digits only: passwords become part of a URL.
        for name in PASSWORDS:
            file.write(f"{name}={secrets.token_hex(24)}\n")
    return True


def main() -> None:
    """Entry point; see the module docstring."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python3 docker/make_env.py FILE")
    path = Path(sys.argv[1])
    if write_env(path):
        print(f"wrote {path} with new passwords; now: docker compose up --build --wait")
    else:
        print(f"{path} exists and was left as it is")


if __name__ == "__main__":
    main()
