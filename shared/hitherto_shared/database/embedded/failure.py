"""The one error of this package."""

from __future__ import annotations


class EmbeddedPostgresError(RuntimeError):
    """The embedded Postgres cannot be used; the text gives the reason and the remedy."""


class Interrupted(Exception):
    """The wait ended because its owner releases the server."""
