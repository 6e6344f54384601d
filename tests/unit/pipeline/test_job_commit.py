"""Retries of the commit of a paid reply."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from psycopg import errors

from hitherto_extraction.pipeline.job_commit import patiently
from hitherto_shared.database.pool import Connection, Database


class _Recovering:
    """A database that comes back after its first refusal."""

    def __init__(self) -> None:
        self.tries = 0

    async def run(self, work: Callable[[Connection], Awaitable[str]], *, timeout: float) -> str:
        self.tries += 1
        if self.tries == 1:
            raise errors.CannotConnectNow("starting up")
        return await work(cast(Connection, None))


async def test_a_retry_is_logged_with_the_code_of_the_database(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work(_: Connection) -> str:
        return "stored"

    with caplog.at_level(logging.WARNING, "hitherto.worker"):
        assert await patiently(cast(Database, _Recovering()), work, seconds=60) == "stored"
    (record,) = caplog.records
    assert record.getMessage().startswith("retrying a commit: ")
    assert record.__dict__["sqlstate"] == "57P03"
