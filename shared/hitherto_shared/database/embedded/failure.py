"""The one error of this package."""

from __future__ import annotations


class EmbeddedPostgresError(RuntimeError):
    """The embedded Postgres cannot be used; the text says what is wrong and what to do next."""


class Interrupted(Exception):
    """The wait was given up because its owner releases the server."""
