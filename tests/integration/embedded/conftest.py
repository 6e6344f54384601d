from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hitherto_shared.database.embedded import EmbeddedPostgres
from tests.integration.embedded.processes import Holder, postgres_processes
from tests.waiting import wait_until


@pytest.fixture
def data_dir(place: Path) -> Iterator[Path]:
    """A data folder that does not exist yet; no server survives the test."""
    folder = place / "data"
    yield folder
    for pid in postgres_processes(folder):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not postgres_processes(folder), "the end of Postgres")


@pytest.fixture(scope="module")
def prepared() -> Iterator[EmbeddedPostgres]:
    """A server for a whole module: whoever changes its roles changes them back."""
    base = Path(tempfile.mkdtemp(prefix="hitherto-test-"))
    base.chmod(0o711)
    try:
        with EmbeddedPostgres.acquire(base / "data") as server:
            yield server
    finally:
        shutil.rmtree(base)


@pytest.fixture
def hold(data_dir: Path) -> Iterator[Callable[..., Holder]]:
    """Starts holder processes of `data_dir` and ends those that are left."""
    holders: list[Holder] = []

    def start(folder: Path = data_dir, **options: object) -> Holder:
        holders.append(Holder(folder, **options))  # type: ignore[arg-type]
        return holders[-1]

    yield start
    for holder in holders:
        holder.kill()
