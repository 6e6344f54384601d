"""A database that cannot be reached: the reason, what to do, and no secret (row 63).

The reasons are those of a real server, and of sockets that are none. The programs all ask the same
place, so that each of them is started for one of the reasons only.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hitherto_shared.config import SharedSettings
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.migrate import COMMAND
from hitherto_shared.startup import StartupFailed, locate_database
from tests.faults.processes import ROOT, Processes

SECRET = "hushhush"

REFUSED = "refuses connections"
UNKNOWN_HOST = "host cannot be resolved"
LOGIN = "refuses the login"
NO_DATABASE = "no database of this name"
MALFORMED = "connection string is malformed"
TLS = "no TLS connection"
NOT_POSTGRES = "not Postgres"
UNPREPARED = "its roles are missing"
SILENT = "does not answer"


@contextmanager
def listening(reply: bytes) -> Iterator[int]:
    """A port where somebody answers every first message with `reply`."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.recv(8)
                    client.sendall(reply)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(180)


def changed(**parts: str) -> Callable[[str], str]:
    return lambda conninfo: make_conninfo(conninfo, **parts)


def fixed(text: str) -> Callable[[str], str]:
    return lambda _: text


REASONS: dict[str, tuple[Callable[[str], str], str]] = {
    "wrong password": (changed(password=SECRET), LOGIN),
    "no such database": (changed(dbname="ssl-nowhere"), NO_DATABASE),
    "no socket": (changed(host="/nowhere/at/all"), REFUSED),
    "unknown host": (fixed(f"postgresql://u:{SECRET}@no-such-host.invalid/db"), UNKNOWN_HOST),
    "an @ in the password": (fixed(f"postgresql://u:p@{SECRET}@127.0.0.1/db"), UNKNOWN_HOST),
    "a / in the password": (fixed(f"postgresql://u:{SECRET}/x@127.0.0.1/db"), MALFORMED),
    "a % in the password": (fixed(f"postgresql://u:{SECRET}%zz@127.0.0.1/db"), MALFORMED),
    "no URL": (fixed(f"postgres//u:{SECRET}@h/db"), MALFORMED),
    "an unknown option": (fixed(f"postgresql://u:{SECRET}@h/db?{SECRET}=1"), MALFORMED),
    "an unknown sslmode": (fixed(f"postgresql://u:{SECRET}@127.0.0.1/db?sslmode=x"), MALFORMED),
}


def refusal(database_url: str, tmp_path: Path) -> str:
    """Why a service would not start on this database; nothing in it that is secret."""
    settings = SharedSettings(database_url=database_url, data_dir=tmp_path)
    with pytest.raises(StartupFailed) as caught:
        locate_database(settings)
    said = str(caught.value)
    assert caught.value.__cause__ is None
    assert SECRET not in said
    assert said.startswith("DATABASE_URL: ")
    return said


def test_the_reason_is_told(postgres: EmbeddedPostgres, tmp_path: Path) -> None:
    for reason, (spoilt, told) in REASONS.items():
        assert told in refusal(spoilt(postgres.conninfo()), tmp_path), reason


def test_the_reason_is_told_where_no_file_can_be_made(postgres: EmbeddedPostgres) -> None:
    """As in a container with a read-only file system and no folder for temporary files."""
    program = (
        "import tempfile; tempfile.tempdir = '/nowhere'\n"
        "from hitherto_shared.database.migrate import main; main()"
    )
    url = make_conninfo(postgres.conninfo(), password="wrong")
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": os.environ["PATH"], "DATABASE_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "it refuses the login" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_port_where_nobody_listens_or_somebody_else(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        assert REFUSED in refusal(f"postgresql://u:{SECRET}@localhost:{port}/db", tmp_path)
    for reply, options, told in (
        (b"N", "?sslmode=require", TLS),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "", NOT_POSTGRES),
        (b"", "?sslmode=disable", SILENT),
    ):
        with listening(reply) as port:
            url = f"postgresql://u:{SECRET}@127.0.0.1:{port}/db{options}"
            assert told in refusal(url, tmp_path), reply


def refusing(state: str, message: str) -> bytes:
    """What a server answers who refuses a connection, in its own language."""
    parts = {"S": "FATAL", "V": "FATAL", "C": state, "M": message}
    fields = b"".join(key.encode() + value.encode() + b"\0" for key, value in parts.items())
    return b"E" + struct.pack(">i", len(fields) + 5) + fields + b"\0"


ELSEWHERE = [
    ("28P01", "Passwort-Authentifizierung für Benutzer »u« fehlgeschlagen", LOGIN),
    ("28000", "kein pg_hba.conf-Eintrag für Host »h«, »u«, SSL-Verschlüsselung", LOGIN),
    ("28000", "Rolle »hitherto_read« existiert nicht", UNPREPARED),
    ("3D000", 'データベース"db"は存在しません', NO_DATABASE),
    ("53300", "desculpe, já existem clientes demais", "CONNECTION LIMIT"),
    ("57P03", "система баз данных запускается", "starting or stopping"),
    ("XX000", "意外なエラー", "SQLSTATE XX000"),
]


def test_a_server_of_another_language(tmp_path: Path) -> None:
    for state, message, told in ELSEWHERE:
        with listening(refusing(state, message)) as port:
            url = f"postgresql://u:{SECRET}@127.0.0.1:{port}/db?sslmode=disable"
            said = refusal(url, tmp_path)
        assert told in said, message
        assert message not in said


def test_a_login_that_was_not_prepared(postgres: EmbeddedPostgres, tmp_path: Path) -> None:
    """The services' logins exist on the server, with passwords that this login does not tell."""
    import psycopg
    from psycopg import sql

    administrator = postgres.superuser_conninfo()
    name = f"stranger_{tmp_path.name}"[:60]
    with psycopg.connect(administrator, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
                sql.Identifier(name), sql.Literal(SECRET)
            )
        )
        try:
            said = refusal(make_conninfo(administrator, user=name, password=SECRET), tmp_path)
        finally:
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))
    assert UNPREPARED in said
    assert COMMAND in said


async def test_every_program_tells_the_reason(shared: Processes, conninfo: str) -> None:
    spoilt, told = REASONS["wrong password"]
    url = spoilt(conninfo)
    services = [shared.launch(name, DATABASE_URL=url) for name in ("extraction", "retrieval")]
    migrating = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hitherto_shared.database.migrate",
        cwd=ROOT,
        env={"DATABASE_URL": url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await migrating.communicate()
    assert migrating.returncode == 1
    texts = {COMMAND: said.decode()}
    for service in services:
        assert await service.ended() == 1
        texts[f"hitherto-{service.name}"] = service.said
    true_password = str(conninfo_to_dict(conninfo)["password"])
    for program, text in texts.items():
        assert text.startswith(f"{program}: DATABASE_URL: ") or f"\n{program}: DATABASE" in text
        assert told in text
        assert not any(secret in text for secret in (SECRET, true_password, url)), text
        assert "Traceback" not in text
