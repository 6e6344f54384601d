"""Reads a key set from a file, and says which other source a setting names."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from pathlib import Path
from typing import Protocol

from yarl import URL

from hitherto_shared.auth.key_set import MAX_BYTES, KeysUnreachable
from hitherto_shared.private_file import NotRegular, open_regular

VARIABLE = "HITHERTO_JWT_JWKS"


class KeySource(Protocol):
    """A source that can be read repeatedly."""

    every: float
    """Seconds between two refreshes in the background."""
    between_surprises: float
    """Minimum seconds between two refreshes for unknown keys."""

    async def read(self) -> bytes:
        """The text of the key set.

        Raises:
            KeysUnreachable: It is unavailable.
        """
        ...


class KeyFile:
    """A key set in a file, which may be replaced at any time."""

    every = 10.0
    between_surprises = 1.0

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self) -> bytes:
        """The file's bytes; see `KeySource`."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> bytes:
        try:
            with open_regular(self._path) as file:
                return file.read(MAX_BYTES + 1)
        except NotRegular:
            raise KeysUnreachable("it is a directory, a pipe or a device, and no file") from None
        except OSError as error:
            raise KeysUnreachable(
                f"the file cannot be read ({error.strerror or 'I/O error'})"
            ) from None


def key_source(place: str) -> KeySource:
    """The source that a path or an address names.

    Raises:
        ValueError: It is an address that cannot be used; the message names the variable.
    """
    place = place.strip()
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", place):
        try:
            return KeyFile(Path(place).expanduser())
        except RuntimeError:
            raise ValueError(f"{VARIABLE}: {place} names no user of this machine") from None
    try:
        url = URL(place)
    except ValueError:
        url = URL()
    host = url.host or ""
    if not host or (url.scheme != "https" and not (url.scheme == "http" and is_local(host))):
        raise ValueError(
            f"{VARIABLE} must be the path of a file or an https address (http only on loopback): "
            "an attacker who can change the keys in transit can sign any token"
        )
    # aiohttp takes a tenth of the time that a service takes to start, and few need it for this.
    from hitherto_shared.auth.key_address import KeyAddress  # noqa: PLC0415

    return KeyAddress(url.with_fragment(None))


def is_local(host: str) -> bool:
    """Whether a host is this machine, by a name or address that no other one has."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
